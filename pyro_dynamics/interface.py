"""The Python interface: train, fit, load and make, with the words of the command line."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from pyro_dynamics.datasets.sources import Source, read_data, source_names
from pyro_dynamics.environments import FAMILIES, Family, Schedule, find_family
from pyro_dynamics.environments.contexts import numbers
from pyro_dynamics.environments.entry_points import call_maker
from pyro_dynamics.environments.hidden_parameter import choose_context
from pyro_dynamics.environments.nominal import nominal_context
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import real_number, whole_number
from pyro_dynamics.gymnasium_ids import IDS
from pyro_dynamics.io.files import path_of
from pyro_dynamics.io.online_state import load_online
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.online_agent import OnlineAgent
from pyro_dynamics.processor import computing
from pyro_dynamics.rollouts.trackers.contract import TrackerName
from pyro_dynamics.runners.common.configuration import CHOICES, Preset, from_json, to_json
from pyro_dynamics.runners.common.factory import environment_changes, group_for, load_run
from pyro_dynamics.runners.common.settings_by_name import (
    column_names,
    fit_config,
    folder_suffix,
    online_config,
    state_entries,
    train_config,
    words,
)
from pyro_dynamics.runners.common.training_run import train_or_resume
from pyro_dynamics.runners.fit import default_name as default_fit_name
from pyro_dynamics.runners.fit import fit_run
from pyro_dynamics.runners.train import default_name

FamilyLike = str | Family | Callable[[], Family]
"""A family by its name or as ``module:callable``, as an object, or as the function that makes it."""
BUILT_IN = frozenset(FAMILIES)
"""Names that a family of the user's own cannot have."""
STEPS = 1000
"""Of an episode of an environment of the user's own, where nothing else is said."""


def train(
    family: FamilyLike = "pendulum-gravity",
    preset: Preset = "quick",
    *,
    seed: int = 0,
    out: str | Path | None = None,
    start_from: str | Path | None = None,
    tracker: TrackerName = "none",
    step_limit: float | None = None,
    threads: int = 1,
    **settings: Any,
) -> OnlineAgent:
    """Learn one dynamics model over the family's training contexts (Algorithm 1), as ``pyro-dynamics train`` does.

    The same call again loads the run that is there, or resumes it if it was stopped.

    Args:
        family: of environments: a name, ``module:callable``, a :class:`Family`, or a function that makes one. Commands
            find the run's family again where it was given by name or as a function of a module.
        preset: where the settings come from that are not given: quick, cpu, realtime or paper.
        seed: names every random stream.
        out: folder of the run; by default one in ``runs/``, named after the family and the settings given here.
        start_from: folder of another run, as a rule of :func:`fit`, whose transitions take the place of round 0, which
            acts at random; its environments must be those that the family trains on.
        tracker: where the metrics of each round are written too: tensorboard, wandb, trackio or none.
        step_limit: seconds that a step of an environment may take; then it is left out as one that raises.
        threads: processor threads.
        settings: fields of ``config.json``, such as ``rounds=4``, ``guide="flow"``, ``belief="power"``,
            ``offline={"min_steps": 500}``. A guide, belief, update or planner may also be a class of one's own.

    Returns:
        The trained agent, with a belief at the prior. An oracle is given the first training context, and of specialists
        it is the first one: see ``load(context=...)`` for others.

    Raises:
        UserError: if a setting makes no sense, or the folder holds a run with other settings.

    Example::

        agent = pyro_dynamics.train("pendulum-gravity", rounds=2, guide="full-rank")
    """
    chosen = named_family(family)
    config = train_config(chosen, preset, seed, settings)
    start = None if start_from is None else path_of(start_from)
    name = default_name(config, start) + folder_suffix(config, settings)
    path = path_of(out) if out is not None else Path("runs") / name
    with computing(threads):
        folder = train_or_resume(config, path, step_limit=step_limit, tracker=tracker, start_from=start)
    if (folder.last_round or 0) > config.rounds:
        raise UserError(
            f"{path} has {folder.last_round} rounds already, more than {config.rounds}: load it, or give out="
        )
    needed = config.agent in ("oracle", "specialist")
    first = find_family(chosen).train[0] if needed else None
    return _opened(path, context=first, checkpoint=None, seed=seed, threads=threads, online={}, saved=False)


def fit(
    data: Source | Sequence[Source],
    *,
    group: str | Sequence[str] | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    unit: str | Sequence[str] | None = "",
    hold_out: float = 0.2,
    family: FamilyLike | None = None,
    angles: int | str | Sequence[int | str] = (),
    threads: int = 1,
    **settings: Any,
) -> OnlineAgent:
    """Learn from logged transitions, as ``pyro-dynamics fit`` does, without a simulator.

    The same call with the same data again loads the run that is there.

    Args:
        data: a file or data set, several of them, a pandas ``DataFrame``, or a mapping of names to arrays.
        group: the column whose values identify the environments; several have commas between them, or are a list.
        columns: what the columns are called, where they have other names: ``{"state": ["x", "v"], "action": "push"}``,
            and likewise next_state, reward, episode and step.
        out: folder of the run; by default ``runs/fit-AGENT-SEED``.
        seed: names every random stream.
        unit: of that column, or of each.
        hold_out: share of each environment's episodes that is held out.
        family: of the same environment: its features, targets and reward, and its simulator.
        angles: entries of the state that are angles, in radians or degrees, which wrap: numbers or names.
        threads: processor threads.
        settings: fields of ``config.json``, as in :func:`train`.

    Returns:
        The fitted agent, with a belief at the prior. Without a family it updates and predicts, and cannot plan.

    Raises:
        UserError: if the data or a setting makes no sense, or the folder holds another fit.
    """
    config = fit_config(seed, settings)
    name = None if family is None else named_family(family)
    path = path_of(out) if out is not None else Path("runs") / default_fit_name(config)
    group = None if group is None else words(group, "group")
    called, unit = column_names(columns or {}), "" if unit is None else words(unit, "unit")
    share = real_number(hold_out, "hold_out")
    with computing(threads):
        read = read_data(data, group, called)
        for note in read.notes:
            warnings.warn(note, stacklevel=2)
        entries = state_entries(angles, called, read.transitions.state.shape[1])
        how: dict[str, Any] = {"unit": unit, "held_out_share": share, "family": name, "angles": entries}
        fit_run(config, read, path, sources=source_names(data), again=True, **how)
    needed = config.agent == "specialist"
    return load(path, context=read.labels[0] if needed else None, seed=seed, threads=threads)


def load(
    path: str | Path,
    *,
    context: Any = None,
    checkpoint: int | None = None,
    seed: int | None = None,
    family: FamilyLike | None = None,
    parts: Mapping[str, type] | None = None,
    threads: int = 1,
    **online: Any,
) -> OnlineAgent:
    """Open the folder of a run.

    Args:
        path: the folder of a training or a fit, or a zip of one that ``pyro-dynamics share`` made; or a folder that
            :meth:`OnlineAgent.save` wrote: then the belief stands where it stood.
        context: the true hidden parameter, which an oracle needs, and a specialist to be chosen by.
        checkpoint: the round whose model is taken; the newest by default.
        seed: names the random streams of acting and updating; by default 0, or where a saved agent's stood.
        family: of the run, where it is an object that only your program has.
        parts: classes of your own that the run names and only your program has, such as ``{"guide": MyGuide}``.
        threads: processor threads.
        online: how the belief follows what comes, if not as the run says: ``belief``, ``belief_config``, ``update``,
            ``update_config``, ``temperature``, ``belief_per`` ("member" or "ensemble"), ``prior`` ("learned" or
            "standard").

    Raises:
        UserError: if the folder does not hold a run, or a setting makes no sense.
    """
    if family is not None:
        named_family(family)
    for kind, part in (parts or {}).items():
        if kind not in CHOICES:
            raise UserError(f"parts has no entry {kind!r}: choose among {', '.join(CHOICES)}")
        CHOICES[kind].word_for(part)
    return _opened(
        path_of(path), context=context, checkpoint=checkpoint, seed=seed, threads=threads, online=online, saved=True
    )


def _opened(
    path: Path,
    *,
    context: Any,
    checkpoint: int | None,
    seed: int | None,
    threads: int,
    online: Mapping[str, Any],
    saved: bool,
) -> OnlineAgent:
    """The agent of a run: with the belief that was saved in its folder if that is wanted, and at the prior if not."""
    there = RunFolder.open(path)
    path = path.absolute()  # a notebook may change its folder
    config = from_json(there.config)
    if context is None and config.agent in ("oracle", "specialist"):
        raise UserError(f"agents of the kind {config.agent} need the true hidden parameter: give context=")
    with computing(threads):
        kept = load_online(there.path) if saved and not online and checkpoint is None else None
        if kept is not None:
            config = from_json({**to_json(config), "online": kept["online_config"]})
            checkpoint = kept.get("checkpoint")
        run, config, found, trained = load_run(path, checkpoint, online_config(config, online))
        for words in environment_changes(run, config, found):
            warnings.warn(words, stacklevel=3)
        group = group_for(trained, found, [None if context is None else found.parse_context(context)])
        agent = OnlineAgent(run, to_json(config), found, trained, group, seed or 0, threads, checkpoint)
        if kept is not None:
            agent.load_state_dict(kept)
            if seed not in (None, agent.seed):
                agent.reseed(seed)
    return agent


def make(
    family: FamilyLike, context: Any = None, *, max_steps: int | None = None, **settings: Any
) -> gymnasium.Env[Any, Any]:
    """An environment of a family.

    Args:
        family: of environments.
        context: the hidden parameter, or how it changes: a number, a tuple of several, a name, a schedule such as
            ``"0:9,40:3"``, or a :class:`~pyro_dynamics.environments.Schedule`; by default the middle one of those that
            are trained on.
        max_steps: after which an episode is truncated; by default as Gymnasium's own environment of that kind.
        settings: of the environment's constructor, such as ``render_mode="rgb_array"``. A hidden parameter by its name
            is the context: ``gravity=9.0``; of several, those that are not named have their nominal value.

    Returns:
        A Gymnasium environment; the true context is in ``info["context"]``, and never in the observation.

    Raises:
        UserError: if there is no such family or context, or the context is given both ways.
    """
    found = find_family(named_family(family))
    named = {name: settings.pop(name, None) for name in found.parameters}
    if any(value is not None for value in named.values()):
        nominal = nominal_context(found)
        values = (nominal,) if isinstance(nominal, str) else numbers(nominal)
        context = choose_context(context, named, dict(zip(found.parameters, values, strict=True)))
    max_steps = None if max_steps is None else whole_number(max_steps, "max_steps", 1)
    steps = IDS.get(found.name, ("", STEPS))[1] if max_steps is None else max_steps
    if context is None:
        context = found.train[len(found.train) // 2]
    if isinstance(context, str) and ":" in context and context not in (*found.train, *found.test_contexts):
        context = found.parse_schedule(context, steps)
    if isinstance(context, Schedule) and (words := context.unreached(steps)):
        warnings.warn(words, stacklevel=2)
    return found.make(context if isinstance(context, Schedule) else found.parse_context(context), steps, **settings)


def named_family(family: FamilyLike) -> str:
    """The word by which ``config.json`` names a family.

    A function of a module is ``module:name``, which every command finds. What only this process has is registered in it
    under its own name.

    Raises:
        UserError: if it is no family, or has the name of one that is here already.
    """
    if isinstance(family, str):
        found = find_family(family)
        if ":" in family and found.name not in BUILT_IN:
            FAMILIES[found.name] = found  # for a run that knows it by its name alone
        return family
    if not isinstance(family, Family) and callable(family):
        word, family = _import_word(family), call_maker(family, getattr(family, "__name__", "what was given"))
        if word is not None and isinstance(family, Family):
            return named_family(word)
    if not isinstance(family, Family):
        raise UserError(f"a family is a name, a Family or a function that makes one, not {type(family).__name__}")
    if not family.name or file_name(family.name) != family.name:
        raise UserError(
            f"the name {family.name!r} of a family is part of folders' names: give it letters, digits, - and _ alone"
        )
    if family.name in BUILT_IN and FAMILIES[family.name] is not family:
        raise UserError(f"there is a family {family.name!r} already: give your own another name")
    FAMILIES[family.name] = family
    return family.name


def _import_word(make: Callable[[], Family]) -> str | None:
    """How other processes find a function, ``module:name``; None for one of a script, a notebook or a function."""
    module, name = getattr(make, "__module__", None), getattr(make, "__qualname__", "")
    if not name.isidentifier() or module in (None, "__main__") or getattr(sys.modules[module], name, None) is not make:
        return None
    return f"{module}:{name}"
