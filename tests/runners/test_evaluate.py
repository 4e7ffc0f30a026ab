"""What `evaluate` prints of beliefs that do not cover the truth."""

import pytest

from pyro_dynamics.environments import find_family
from pyro_dynamics.runners.evaluate import covers_truth, print_table

FAMILY = find_family("pendulum-gravity")


def run(context: float, low: float, high: float) -> dict[str, object]:
    belief = {"context": context, "decoded_quantiles": [low, (low + high) / 2, high], "words": f"{low} to {high}"}
    return {"return": -1.0, "log_likelihood": 2.0, "belief": belief}


def test_truths_outside_the_belief_are_marked_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    episodes = [[run(3.0, 2.5, 3.5), run(3.0, 3.1, 3.5)], [run(5.0, 5.5, 6.0), run(5.0, 4.0, 6.0)]]
    print_table(FAMILY, {"test": (3.0, 5.0)}, episodes)
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("3 ")).endswith("3.1 to 3.5 *")
    assert next(line for line in lines if line.startswith("5 ")).endswith("4.0 to 6.0")
    assert lines[-1] == "* the truth lies outside of the belief's 90 % interval at the end: in 2 of 4 episodes"


def test_nothing_is_said_where_every_truth_is_covered(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(FAMILY, {"test": (3.0,)}, [[run(3.0, 2.5, 3.5)]])
    assert "*" not in capsys.readouterr().out


def test_what_cannot_be_compared_is_not_marked() -> None:
    assert covers_truth({"context": "front-foot", "words": "near"})
    assert covers_truth({"context": None, "decoded_quantiles": [0.0, 1.0, 2.0]})
    several = {"context": (1.0, 5.0), "decoded_quantiles": [[0.5, 0.5], [1.0, 1.0], [1.5, 1.5]]}
    assert not covers_truth(several)
