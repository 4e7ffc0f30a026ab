"""The progress bar of a training run."""

from collections.abc import Sequence

import torch
from torch import Tensor
from tqdm import tqdm

from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.rollouts.rollout import Step


class Progress:
    """Shows round, environments with their returns so far, and the time left.

    Args:
        contexts: the true contexts of the K environments.
        rounds: the last round.
        steps: steps in each episode.
        done: rounds that were finished before.
    """

    def __init__(self, contexts: Sequence[Context], rounds: int, steps: int, done: int) -> None:
        self.contexts, self.rounds = contexts, rounds
        self.returns: Tensor | None = None
        self.elbo: float | None = None  # of the last epoch, in nats for each transition
        # The bar counts environment steps; a round's training is shown in words while it lasts.
        self.bar = tqdm(total=(rounds + 1) * steps, initial=done * steps, unit="step", dynamic_ncols=True)

    def training(self, m: int) -> None:
        """Training for round m begins."""
        self.bar.set_description(f"round {m}/{self.rounds} training")

    def epoch(self, epoch: int, elbo: float) -> None:
        """An epoch is over."""
        self.elbo = elbo
        self.bar.set_postfix_str(f"epoch {epoch + 1}, ELBO {elbo:.2f} nats per transition")

    def step(self, m: int, step: Step) -> None:
        """The environments made a step."""
        if step.index == 0:
            self.bar.set_description(f"round {m}/{self.rounds} acting")
            self.returns = torch.zeros_like(step.reward)
        assert self.returns is not None
        self.returns += step.reward * step.alive
        returns = self.returns.view(-1, len(self.contexts)).mean(0).tolist()
        named = (f"{label(context)}: {value:.0f}" for context, value in zip(self.contexts, returns, strict=True))
        self.bar.set_postfix_str("return " + ", ".join(named), refresh=False)
        self.bar.update()
