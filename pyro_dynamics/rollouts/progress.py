"""The progress of a training run, and how long the rest of it will take."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor
from tqdm import tqdm

from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.progress_lines import LongWait, progress_bar
from pyro_dynamics.rollouts.rollout import Step

FORMAT = "{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
MOST = 1000
"""Rounds whose gradient steps are added up; of more, so many are."""
BETWEEN = 0.1
"""Seconds between two drawings of the bar."""


class Progress:
    """Shows round, environments with their returns so far, and the time left.

    The bar counts seconds: those that have passed, of all that the run will take. What is left are gradient steps,
    which become more as the data grows, and steps of acting; each costs what it has cost so far. How long acting takes
    is not known before the first plans of round 1, and no time is shown until then.

    Args:
        contexts: the true contexts of the K environments.
        rounds: the last round.
        steps: steps in each episode.
        done: rounds that were finished before.
        offline: sizes of a training.
        agents: which share the environments, each with a training of its own.
        episodes: of each environment in a round.
        first: transitions of round 0, where they are known.
    """

    def __init__(
        self,
        contexts: Sequence[Context],
        rounds: int,
        steps: int,
        done: int,
        offline: OfflineConfig,
        agents: int = 1,
        episodes: int = 1,
        first: int | None = None,
    ) -> None:
        self.contexts, self.rounds, self.steps = contexts, rounds, steps
        self.offline, self.agents = offline, agents
        self.simulated = len(contexts) * episodes
        self.first = steps * self.simulated if first is None else first
        self.returns: Tensor | None = None
        self.elbo: float | None = None  # of the last epoch, in nats for each transition
        self.round, self.index = done, 0
        self.last: Step | None = None
        self.gradient_steps, self.gradient_seconds, self.in_round = 0, 0.0, 0  # the last: since the round began
        self.plans, self.plan_seconds = 0, 0.0
        self.lengths: list[int] = []  # of the episodes with plans
        self._start = self._last = time.monotonic()
        self._drawn = 0.0
        self.bar: tqdm = progress_bar(bar_format=FORMAT)
        self._wait = LongWait()

    def training(self, m: int) -> None:
        """Training for round m begins."""
        self._lap()
        if self.round and self.plans:
            self.lengths.append(self.index)
        self.round, self.in_round, self.index = m, 0, 0
        self.bar.set_description_str(f"round {m}/{self.rounds} training", refresh=False)

    def epoch(self, epoch: int, elbo: float) -> None:
        """An epoch is over."""
        self.elbo = elbo
        steps = self.offline.sizes(self._rows(self.round))[1]
        self.gradient_steps, self.in_round = self.gradient_steps + steps, self.in_round + steps
        self.gradient_seconds += self._lap()
        self._show(f"epoch {epoch + 1}, ELBO {elbo:.2f} nats per transition")

    def acting(self, contexts: Sequence[Context]) -> None:
        """The environments of this round have these contexts."""
        self.contexts = contexts

    def step(self, m: int, step: Step) -> None:
        """The environments made a step."""
        if step.index == 0:
            self.bar.set_description_str(f"round {m}/{self.rounds} acting", refresh=False)
            self.returns = torch.zeros_like(step.reward)
        assert self.returns is not None
        self.returns += step.reward * step.alive
        self.round, self.index, self.last = m, step.index + 1, step
        seconds = self._lap()
        if m > 0:  # round 0 acts at random, which takes next to nothing
            self.plans, self.plan_seconds = self.plans + 1, self.plan_seconds + seconds
        returns = self.returns.view(-1, len(self.contexts)).mean(0).tolist()
        named = (f"{label(context)}: {value:.0f}" for context, value in zip(self.contexts, returns, strict=True))
        self._show("return " + ", ".join(named))

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, of this process."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float | None:
        """Seconds that the rest will take; None as long as nothing was planned or trained."""
        return self._least_left() if self.plans and self.gradient_steps else None

    def _least_left(self) -> float:
        """The same, without the plans as long as there were none."""
        length = sum(self.lengths) / len(self.lengths) if self.lengths else self.steps
        later = range(self.round + 1, self.rounds + 1)
        some = later[:: max(len(later) // MOST, 1)]  # the steps grow evenly from round to round
        training = sum(self._gradient_steps(m) for m in some) * len(later) / max(len(some), 1)
        if not self.index:  # still at this round's own
            training += max(self._gradient_steps(self.round) - self.in_round, 0)
        acting = max(length - self.index, 0) + len(later) * length
        costs = self.gradient_seconds / max(self.gradient_steps, 1), self.plan_seconds / max(self.plans, 1)
        return training * costs[0] + acting * costs[1]

    def close(self) -> None:
        """All is done, or was stopped."""
        self.bar.close()

    def _lap(self) -> float:
        """Seconds since the last call."""
        last, self._last = self._last, time.monotonic()
        return self._last - last

    def _rows(self, m: int) -> int:
        """Transitions that an agent trains on in round m, or a little more where episodes ended early."""
        return max((self.first + (m - 1) * self.steps * self.simulated) // self.agents, 1)

    def _gradient_steps(self, m: int) -> int:
        """Of round m, of all agents."""
        epochs, steps = self.offline.sizes(self._rows(m))
        return self.agents * epochs * steps

    def _show(self, words: str) -> None:
        if time.monotonic() - self._drawn < BETWEEN:
            return
        self._drawn, left = time.monotonic(), self.left
        self._wait.expect(self._least_left(), f"{self.rounds} rounds of up to {self.steps} steps, now in {self.round}")
        if left is None:
            time_left = "time left unknown before the first plans"
        else:
            self.bar.total, self.bar.n = self.elapsed + left, self.elapsed
            time_left = f"about {tqdm.format_interval(left)} left"
        self.bar.set_postfix_str(f"{time_left}, {words}")
