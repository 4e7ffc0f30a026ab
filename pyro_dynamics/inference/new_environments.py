"""What is believed of environments that were met after the training, by all their transitions, with theta fixed."""

import torch
from torch import Tensor

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.inference.natural_update import move_to_optimum
from pyro_dynamics.inference.user_model import over_environments

STEPS = 10
"""Most natural-gradient steps from the prior to the optimum; some five are taken."""


@torch.no_grad()
def infer_new(
    model: DynamicsModel, guide: VariationalGuide, inputs: Tensor, targets: Tensor, environment: Tensor, first: int
) -> None:
    """Let q(e_k) of new environments be the best of its family for their data; the others' stay as they are.

    Args:
        model: over K environments; stays as it is.
        guide: over the same; a guide that encodes transitions is given them.
        inputs: of the new environments alone, ``[N, F + A]``.
        targets: ``[N, T]``.
        environment: ``[N]``, from ``first`` on.
        first: number of the first new environment.

    Raises:
        UserError: if the guide has a table and is not Gaussian.
    """
    if not guide.infers:
        return
    if guide.reads_transitions:
        guide.observe(inputs, targets, environment)
        return
    count = guide.environments - first
    own, new = over_environments(model, count), guide.for_environments(count)
    batch = whole_batch(inputs, targets, environment - first, model.likelihood.members)
    move_to_optimum(own, new, own.prior(), batch, STEPS)
    guide.assign(torch.arange(first, guide.environments), new, torch.arange(count))
