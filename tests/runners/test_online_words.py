"""Online settings as one word: what it says, what it leaves to the run, and the mistakes in it."""

import re
from dataclasses import replace

import pytest

from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import ChangepointConfig, KalmanUpdateConfig, RecursiveConfig, SVIUpdateConfig
from pyro_dynamics.inference.beliefs.power import PowerConfig
from pyro_dynamics.runners.common.configuration import CHANGEPOINT_KALMAN, OnlineConfig
from pyro_dynamics.runners.common.online_words import online_word, read_online

OWN = OnlineConfig("changepoint", ChangepointConfig(hazard=0.01), "kalman", KalmanUpdateConfig(iterations=2), 0.5)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("changepoint:kalman", OWN),
        ("changepoint:svi", replace(OWN, update="svi", update_config=SVIUpdateConfig())),
        ("recursive:kalman", replace(OWN, belief="recursive", belief_config=RecursiveConfig())),
        (
            "power:svi:forgetting-factor=0.9,steps=5,temperature=1",
            OnlineConfig("power", PowerConfig(forgetting_factor=0.9), "svi", SVIUpdateConfig(steps=5), 1.0),
        ),
        ("changepoint:kalman:update.iterations=7", replace(OWN, update_config=KalmanUpdateConfig(iterations=7))),
        (
            "changepoint:svi:compiled=true,hazard=0.02",
            OnlineConfig(
                "changepoint", ChangepointConfig(hazard=0.02), "svi", SVIUpdateConfig(compiled=True), temperature=0.5
            ),
        ),
        (
            "pyro_dynamics.inference.beliefs.power:PowerBelief:kalman",
            replace(OWN, belief="pyro_dynamics.inference.beliefs.power:PowerBelief", belief_config=PowerConfig()),
        ),
    ],
)
def test_what_is_not_named_is_the_runs_own(word: str, expected: OnlineConfig) -> None:
    found = read_online(word, OWN)
    assert found == expected
    assert read_online(online_word(found), OnlineConfig()) == expected


def test_default_settings_are_not_spelled_out() -> None:
    assert online_word(OnlineConfig()) == "recursive:svi"
    own = "belief_per=member,prior=learned"
    assert online_word(CHANGEPOINT_KALMAN) == f"changepoint:kalman:{own}"
    assert online_word(OWN) == "changepoint:kalman:temperature=0.5,hazard=0.01,update.iterations=2"


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("changepoint", "does not read BELIEF:UPDATE"),
        ("", "does not read BELIEF:UPDATE"),
        ("changepoint:kalman:hazard", "does not read BELIEF:UPDATE"),
        ("changepoint:kalman:hazard=0.1:more", "does not read BELIEF:UPDATE"),
        ("changepoint:kalman:belief=power", "has a setting 'belief'"),
        ("changepoint:kalman:length=3", "neither changepoint nor kalman has a setting 'length'"),
        ("changepoint:kalman:hazard=often", "hazard is written like 0.01, not 'often'"),
        ("changepoint:kalman:hazard=2", "hazard must lie in"),
        ("changepoint:svi:compiled=perhaps", "compiled is written like False"),
        ("recursive:newton", "newton"),
        ("changepoint:svi:steps=100000000", "steps"),
    ],
)
def test_mistakes_are_named(word: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        read_online(word, OWN)
