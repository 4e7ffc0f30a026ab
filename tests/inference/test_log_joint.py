"""The log-posterior of each environment's latent, against the sum written out."""

import torch
from torch.distributions import Normal

from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel

K, D = 3, 2


def test_it_is_the_prior_and_the_scaled_mean_over_members(generator: torch.Generator) -> None:
    torch.manual_seed(0)
    net = Ensemble(3, D, 4, EnsembleConfig(2, (8,), (0.0, 0.0)))
    inputs, targets = torch.randn(7, 3, generator=generator), torch.randn(7, 4, generator=generator)
    environment = torch.tensor([0, 1, 1, 0, 1, 1, 0])  # environment 2 has seen nothing
    latent = torch.randn(K, D, generator=generator)
    model = HierarchicalModel(net, K, D)
    found = log_joint(model, model.prior(), whole_batch(inputs, targets, environment, 2, temperature=0.4), latent)
    for k in range(K):
        expected = Normal(0, 1).log_prob(latent[k]).sum()
        for row in (environment == k).nonzero().flatten():
            x, e = inputs[row].expand(2, 1, -1), latent[k].expand(2, 1, -1)
            location, scale = net(x, e)
            expected = expected + 0.4 * Normal(location, scale).log_prob(targets[row]).sum(-1).mean()
        torch.testing.assert_close(found[k], expected, rtol=1e-4, atol=1e-4)
