"""Online settings as one word of the command line: ``changepoint:kalman:hazard=0.01,temperature=0.5``."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import BELIEFS, UPDATES
from pyro_dynamics.runners.common.configuration import OnlineConfig
from pyro_dynamics.runners.common.limits import check_limits

FORM = "BELIEF:UPDATE or BELIEF:UPDATE:setting=value,setting=value"
CHOSEN = {"belief", "belief_config", "update", "update_config"}
"""Fields of the configuration that the first two words decide; the others are settings by their names."""


def read_online(word: str, own: OnlineConfig) -> OnlineConfig:
    """The configuration that a word stands for.

    A setting is one of the belief, of the update, or of both together (``temperature``); where belief and update have
    one of the same name, ``update.NAME`` is that of the update.

    Args:
        word: ``BELIEF:UPDATE``, with settings behind a second colon; parts of the user's own are ``module:Class``.
        own: where the settings are from that the word does not name.

    Raises:
        UserError: if there is no such belief, update or setting.
    """
    parts = word.split(":")
    belief, parts = _part(parts, BELIEFS)
    update, parts = _part(parts, UPDATES)
    if not belief or not update or len(parts) > 1:
        raise UserError(f"{word!r} does not read {FORM}, as changepoint:kalman:hazard=0.01")
    make_belief, make_update = BELIEFS.find(belief), UPDATES.find(update)
    config: Any = replace(
        own,
        belief=belief,
        belief_config=own.belief_config if belief == own.belief else make_belief.Config(),
        update=update,
        update_config=own.update_config if update == own.update else make_update.Config(),
    )
    for name, text in _pairs(parts[0] if parts else "", word).items():
        config = _changed(config, name, text, word)
    check_limits(config)
    return config


def online_word(online: OnlineConfig) -> str:
    """The shortest word that stands for a configuration, among those with default settings elsewhere."""
    usual = OnlineConfig(online.belief, BELIEFS.find(online.belief).Config(), online.update)
    usual = replace(usual, update_config=UPDATES.find(online.update).Config())
    names = [one.name for one in fields(online) if one.name not in CHOSEN]
    changed = [f"{name}={getattr(online, name)}" for name in names if getattr(online, name) != getattr(usual, name)]
    for field, prefix in (("belief_config", ""), ("update_config", "update.")):
        settings, default = vars(getattr(online, field)), vars(getattr(usual, field))
        changed += [f"{prefix}{name}={value}" for name, value in settings.items() if value != default[name]]
    return ":".join([online.belief, online.update, *([",".join(changed)] if changed else [])])


def _part(parts: list[str], registry: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The first part's name, which has a colon of its own if it is the user's, and the rest."""
    if not parts or parts[0] in registry or len(parts) < 2 or parts[1] in registry or "=" in parts[1]:
        return (parts[0] if parts else ""), parts[1:]
    return ":".join(parts[:2]), parts[2:]


def _pairs(text: str, word: str) -> dict[str, str]:
    pairs = [item.partition("=") for item in text.split(",")] if text else []
    if not all(name and equals and value for name, equals, value in pairs):
        raise UserError(f"{word!r} does not read {FORM}, as changepoint:kalman:hazard=0.01")
    return {name.strip().replace("-", "_"): value.strip() for name, _, value in pairs}


def _changed(config: OnlineConfig, name: str, text: str, word: str) -> OnlineConfig:
    """With one setting changed, of the first part that has it."""
    prefix, _, last = name.rpartition(".")
    for field in ("belief_config", "update_config"):
        settings: Any = getattr(config, field)
        if prefix in ("", field.removesuffix("_config")) and hasattr(settings, last):
            return replace(config, **{field: _set(settings, last, text, word)})
    if not prefix and last not in CHOSEN and hasattr(config, last):
        whole: OnlineConfig = _set(config, last, text, word)
        return whole
    raise UserError(f"{word!r}: neither {config.belief} nor {config.update} has a setting {name!r}")


def _set(settings: Any, name: str, text: str, word: str) -> Any:
    kind = type(getattr(settings, name))
    try:
        value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{word!r}: {name} is written like {getattr(settings, name)}, not {text!r}") from None
    return replace(settings, **{name: value})
