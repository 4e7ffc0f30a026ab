"""Flags, beliefs and settings by the names that they had before: said, taken, or read."""

from pathlib import Path

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.runners.common.configuration import RunConfig, from_json, preset_config, to_json
from pyro_dynamics.runners.common.renamed import FIELDS, FLAGS, upgraded, with_new_names
from pyro_dynamics.runners.main import main


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("form", ["{flag}", "{flag}=1"])
def test_a_flags_old_name_says_the_new_one(flag: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", form.format(flag=flag)]) == 2
    assert f"{flag} is called {FLAGS[flag]} now" in capsys.readouterr().err


def test_beliefs_are_taken_by_their_old_names() -> None:
    assert with_new_names(["DIR", "--belief", "exact", "--seed", "1"]) == [
        "DIR",
        "--belief",
        "recursive",
        "--seed",
        "1",
    ]
    assert with_new_names(["--belief=exact"]) == ["--belief=recursive"]
    words = ["--beliefs", "told", "exact", "power:retention=0.5", "--updates", "kalman"]
    expected = ["--beliefs", "oracle-reset", "recursive", "power:forgetting_factor=0.5", "--updates", "kalman"]
    assert with_new_names(words) == expected


def test_the_flag_of_tensorboard_is_taken() -> None:
    assert with_new_names(["--tensorboard", "--seed", "1"]) == ["--tracker", "tensorboard", "--seed", "1"]
    assert with_new_names(["--no-tensorboard"]) == ["--tracker", "none"]


def test_a_configuration_with_the_old_names_is_read() -> None:
    config = preset_config("halfcheetah-tilt", "realtime")
    new = to_json(config)
    old = {}
    for name, value in new.items():
        back = {after: before for before, after in FIELDS.get(name, {}).items()}
        old[name] = {back.get(key, key): item for key, item in value.items()} if isinstance(value, dict) else value
    old["keep"] = old.pop("keep_checkpoints")
    old["planner_config"]["carry"] = old["planner_config"].pop("std_carry")
    old["online"] = {**old["online"], "belief": "exact"}
    assert "std_carry" not in str(old)
    assert from_json(old) == from_json(new) == config
    power = {"belief": "power", "belief_config": {"retention": 0.5}}
    read: RunConfig = from_json({**new, "online": {**new["online"], **power}})
    assert read.online.belief_config.forgetting_factor == 0.5  # type: ignore[attr-defined]


def test_parts_of_the_users_own_keep_their_words() -> None:
    words = ["--belief", "parts:Own", "--belief.retention", "0.3", "--planner=parts:Own", "--planner.carry=0.3"]
    assert with_new_names(words) == words
    assert with_new_names(["--beliefs=exact", "parts:Own:retention=0.3"])[0] == "--beliefs=recursive"
    assert with_new_names(["--beliefs", "parts:Own:retention=0.3"])[1] == "parts:Own:retention=0.3"
    own = {"belief": "parts:Own", "belief_config": {"retention": 0.3}, "planner": "parts:Own"}
    own["planner_config"] = {"carry": 0.3}
    assert upgraded(own) == own


def test_an_unknown_field_is_still_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a configuration"):
        from_json({**to_json(RunConfig()), "kept": 1})
