"""The verdict on streams whose exact belief is known: right ones are believed, and each kind of wrong one is not."""

from collections import Counter

import pytest
from known_streams import CONDEMNED_BY_NOTHING, WRONG, Case, constant, judged, right_cases, switch, wrong_cases

MOST_FALSE_ALARMS, MOST_MISSES = 2, 2


def condemned(case: Case) -> bool:
    return judged(case).verdict.word not in CONDEMNED_BY_NOTHING


@pytest.mark.parametrize(
    "case",
    [
        Case(1, constant(0.5, 90)),
        Case(2, constant(0.5, 120), still=50, known=False),
        Case(3, switch(-1.5, 1.5, 50, 110), "changepoint"),
        Case(4, switch(-1.5, 1.5, 50, 110), "changepoint", known=False),
        Case(5, switch(1.0, -1.0, 40, 90), "window", known=False),
        Case(6, constant(0.5, 90), "power", known=False),
    ],
    ids=["steady", "still", "change", "unknown change", "window", "power"],
)
def test_a_right_belief_is_believed(case: Case) -> None:
    assert not condemned(case)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case(11, switch(-1.5, 1.5, 50, 110), wrong="frozen", size=50, known=False), ["stale"]),
        (Case(12, constant(0.5, 90), wrong="frozen", size=6), ["stale"]),
        (Case(13, constant(1.5, 60), wrong="another context"), ["stale", "do not believe"]),
        (Case(14, constant(1.5, 30), wrong="prior-wide"), ["uninformed"]),
        (Case(15, constant(-1.5, 60), wrong="one step late"), ["do not believe", "stale"]),
        (Case(16, constant(0.5, 80), wrong="biased network", size=2.0, known=False), ["do not believe"]),
    ],
    ids=["frozen", "frozen early", *WRONG[1:]],
)
def test_each_kind_of_wrong_belief_is_condemned_in_its_own_word(case: Case, words: list[str]) -> None:
    assert judged(case).verdict.word in words


@pytest.mark.slow
def test_of_forty_streams_at_most_two_right_ones_are_condemned_and_at_most_two_wrong_ones_are_not() -> None:
    false_alarms = [case for case in right_cases(0) if condemned(case)]
    missed = Counter(case.wrong for case in wrong_cases(0) if not condemned(case))
    assert len(false_alarms) <= MOST_FALSE_ALARMS, false_alarms
    assert missed.total() <= MOST_MISSES, missed
