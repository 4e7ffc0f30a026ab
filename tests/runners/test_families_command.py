"""The families in a table that fits a terminal, and the details of one."""

from types import SimpleNamespace

import pytest
from commands import refused
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space

from pyro_dynamics import FAMILIES
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.gymnasium_ids import gymnasium_id
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.families import actions
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.train import default_name
from pyro_dynamics.tasks import BoxTask


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["families", *arguments]) == 0
    return capsys.readouterr().out


def test_the_table_has_every_family_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys).splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(FAMILIES)]] == list(FAMILIES)
    assert max(map(len, lines)) <= 80
    assert lines[1].split("  ")[-1] == "Pendulum"
    (crippled,) = (line for line in lines if line.startswith("halfcheetah-crippled"))
    assert crippled.split() == ["halfcheetah-crippled", "disabled", "(actuator)", "5", "names", "HalfCheetah"]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_details_of_a_family(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, family = printed(capsys, name), FAMILIES[name]
    about, rest = text.split("\n\ncommands to try:\n")
    assert max(map(len, about.splitlines())) <= 80
    words = about.split()
    for context in (*family.train, *family.test_contexts):
        assert label(context) in words
    for axis in family.axes:
        assert axis in about
    task = family.make_task()
    assert f"{task.state_dim} numbers" in about
    assert f"\ngymnasium id   {gymnasium_id(name)}, ".lower() in about.lower()
    assert ("none: no episode ends early" in about) != task.can_terminate
    works_as_printed(name, *rest.split("\n\nin Python:\n"))


def works_as_printed(name: str, commands: str, python: str) -> None:
    family = FAMILIES[name]
    train, adapt, follow, evaluate = (line.split()[1:] for line in commands.splitlines())
    preset = train[3] if len(train) > 2 else "quick"
    assert train[:2] == ["train", name]
    folder = f"runs/{default_name(preset_config(name, preset))}"  # type: ignore[arg-type]
    assert [words[1] for words in (adapt, follow, evaluate)] == [folder] * 3
    assert family.parse_context(adapt[3]) not in family.train
    assert family.parse_schedule(follow[3]).last_change == 40

    imports, by_id, by_family = (line.strip() for line in python.splitlines())
    names: dict[str, object] = {}
    exec(imports, names)
    expected = family.parse_context(adapt[3])
    assert eval(by_id, names).unwrapped.context == expected
    assert eval(by_family, names).reset(seed=0)[1]["context"] == expected


def test_a_family_of_ones_own_is_described_too(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "point_mass:given")
    assert "point_mass.PointMass" in text
    assert "Gymnasium id" not in text
    assert "pyro-dynamics train point_mass:given\n" in text
    assert 'make("point_mass:given", ' in text


def test_an_unknown_family_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown family 'nosuch': choose one of pendulum-gravity" in refused(["families", "nosuch"], capsys)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Discrete(3), "a choice among 3"),
        (MultiDiscrete([2, 4]), "a choice among 2, a choice among 4"),
        (MultiBinary(2), "a choice among 2, a choice among 2"),
        (Dict(gear=Discrete(5), push=Box(-1, 1, (2,))), "2 numbers, a choice among 5"),
        (Box(-1, 1, (1,)), "1 number"),
        (Box(-1, 1, (3,)), "3 numbers"),
    ],
    ids=str,
)
def test_numbers_and_choices_of_an_action(space: Space, words: str) -> None:
    assert actions(BoxTask(SimpleNamespace(observation_space=Box(-1, 1, (2,)), action_space=space))) == words
