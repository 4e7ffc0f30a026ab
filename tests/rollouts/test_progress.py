"""The time that a training run will take, as its bar shows it."""

import pytest
import torch

from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.rollouts import progress
from pyro_dynamics.rollouts.progress import Progress
from pyro_dynamics.rollouts.rollout import Step

ROUNDS, STEPS, CONTEXTS = 3, 20, (1.0, 2.0)
EPOCH, PLAN = 0.5, 0.25
"""Seconds by the clock of these tests: of a gradient step, and of a step of acting."""


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(progress, "time", one)
    return one


def made_step(index: int) -> Step:
    row, yes = torch.zeros(2), torch.ones(2, dtype=torch.bool)
    return Step(index, row[:, None], row[:, None], row[:, None], row, yes, ~yes, CONTEXTS)


def run(shown: Progress, clock: Clock, length: int = STEPS, first: int = 0) -> list[tuple[float, float | None]]:
    """A whole run at constant costs: (seconds passed, seconds left) after each epoch and step."""
    found = []
    for m in range(first, ROUNDS + 1):
        if m:
            shown.training(m)
            epochs, steps = shown.offline.sizes(m * length * len(CONTEXTS))
            for epoch in range(epochs):
                clock.now += EPOCH * steps
                shown.epoch(epoch, -1.0)
                found.append((shown.elapsed, shown.left))
        for index in range(length):
            clock.now += PLAN if m else 0.0
            shown.step(m, made_step(index))
            found.append((shown.elapsed, shown.left))
    shown.close()
    return found


@pytest.mark.parametrize(
    "offline", [OfflineConfig(batch_size=10, epochs=5), OfflineConfig(batch_size=10, min_steps=60)]
)
def test_training_and_acting_are_weighed(offline: OfflineConfig, clock: Clock) -> None:
    found = run(Progress(CONTEXTS, ROUNDS, STEPS, 0, offline), clock)
    total = found[-1][0]
    known = [passed + left for passed, left in found if left is not None]
    assert known == pytest.approx([total] * len(known))
    first = next(passed for passed, left in found if left is not None)
    assert first == pytest.approx(EPOCH * offline.sizes(STEPS * 2)[0] * offline.sizes(STEPS * 2)[1] + PLAN)


def test_a_resumed_run_counts_the_rest_alone(clock: Clock) -> None:
    found = run(Progress(CONTEXTS, ROUNDS, STEPS, 2, OfflineConfig(batch_size=10)), clock, first=2)
    known = [passed + left for passed, left in found if left is not None]
    assert known == pytest.approx([found[-1][0]] * len(known))


def test_episodes_that_end_early_are_learned_from(clock: Clock) -> None:
    offline = OfflineConfig(batch_size=1000, epochs=1)  # one step a round, whatever the data
    found = run(Progress(CONTEXTS, ROUNDS, 10 * STEPS, 0, offline), clock)
    passed, left = found[-STEPS - 1]  # after the last training
    assert left is not None
    assert passed + left == pytest.approx(found[-1][0])


def test_the_bar_shows_the_share_of_the_seconds(clock: Clock) -> None:
    shown = Progress(CONTEXTS, ROUNDS, STEPS, 0, OfflineConfig(batch_size=10))
    run(shown, clock)
    assert shown.bar.n == pytest.approx(shown.bar.total)
    assert "about 00:00 left, return 1: 0, 2: 0" in str(shown.bar)


@pytest.mark.parametrize(
    ("rounds", "steps", "offline"),
    [
        (10**9, STEPS, OfflineConfig(batch_size=10, epochs=5)),
        (ROUNDS, STEPS, OfflineConfig(batch_size=10, epochs=10**9)),
        (ROUNDS, STEPS, OfflineConfig(batch_size=10, min_steps=10**12)),
        (ROUNDS, 900_000, OfflineConfig(batch_size=10, epochs=5)),
    ],
    ids=["rounds", "epochs", "min-steps", "steps"],
)
def test_numbers_that_mean_forever_are_said_after_the_first_epoch(
    rounds: int, steps: int, offline: OfflineConfig, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Progress(CONTEXTS, rounds, steps, 0, offline)
    shown.step(0, made_step(0))
    shown.training(1)
    for epoch in range(3):
        clock.now += EPOCH * offline.sizes(steps * len(CONTEXTS))[1]
        shown.epoch(epoch, -1.0)
    shown.close()
    printed = capsys.readouterr().err
    assert printed.count("at its present speed: ") == 1
    assert f"{rounds} rounds of up to {steps} steps, now in 1" in printed


def test_a_sum_over_very_many_rounds_is_taken_from_some() -> None:
    offline = OfflineConfig(batch_size=10, epochs=5)
    shown = Progress(CONTEXTS, 20_000, STEPS, 0, offline)
    shown.gradient_steps, shown.gradient_seconds, shown.plans = 1, 1.0, 1
    exact = sum(shown._gradient_steps(m) for m in range(20_001))
    assert shown.left == pytest.approx(exact, rel=0.01)
    shown.close()
