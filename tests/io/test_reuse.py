"""What is there with the same settings is taken up; with others, or damaged, it is not."""

import json
from pathlib import Path

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.reuse import differing, read_made, require_same_settings, stored_result, write_result

SETTINGS = {"seed": 0, "contexts": (1.0, 2.0), "online": {"temperature": 0.5}}


def test_a_result_with_the_same_settings_is_reused_to_the_last_digit(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert stored_result(file, SETTINGS, "track") is None
    write_result(file, SETTINGS, "track", {"return": 1 / 3})
    assert stored_result(file, SETTINGS, "track") == {"return": 1 / 3}
    assert stored_result(file, {**SETTINGS, "seed": 1}, "track") is None
    assert stored_result(file, {**SETTINGS, "more": 1}, "track") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"settings": 3, "track": 1}', '{"settings": {}}'])
def test_a_damaged_one_is_reported_with_what_to_do(tmp_path: Path, content: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(content)
    with pytest.raises(UserError, match=r"result.json .*: delete it, and it is made again"):
        stored_result(file, SETTINGS, "track")
    with pytest.raises(UserError, match="cannot be read"):
        read_made(tmp_path / "none.json")


def test_other_settings_are_named() -> None:
    there = json.loads(json.dumps(SETTINGS))
    assert differing(there, SETTINGS) == []
    wanted = {**SETTINGS, "seed": 1, "online": {"temperature": 1.0}}
    assert differing(there, wanted) == ["seed", "online"]
    assert differing(there, wanted, ignored=["seed"]) == ["online"]
    with pytest.raises(UserError, match=r"here holds a run with other settings \(seed, online\): choose another --out"):
        require_same_settings("a run", Path("here"), there, wanted)
