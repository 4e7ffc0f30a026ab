"""Networks with a last layer for each environment: row by row, by particle, and as trained."""

import pytest
import torch

from pyro_dynamics.models import Ensemble, EnsembleConfig, LastLayerEnsemble

MEMBERS, INPUTS, TARGETS = 3, 4, 2
CONFIG = EnsembleConfig(members=MEMBERS, hidden=(8, 6), weight_decay=(0.0, 0.0, 0.0))


@pytest.fixture
def networks() -> LastLayerEnsemble:
    torch.manual_seed(0)
    made = LastLayerEnsemble(INPUTS, TARGETS, CONFIG, directions=2)
    for bias in made.biases:
        torch.nn.init.normal_(bias)
    made.fit_normaliser(3 * torch.randn(50, INPUTS) + 1)
    made.noise.copy_(torch.rand(MEMBERS, TARGETS))
    return made


def test_without_a_latent_it_is_the_generalists_ensemble(networks: LastLayerEnsemble) -> None:
    plain = Ensemble(INPUTS, 0, TARGETS, CONFIG)
    plain.load_state_dict({name: value for name, value in networks.state_dict().items() if name in plain.state_dict()})
    inputs, nothing = torch.randn(2, MEMBERS, 5, INPUTS), torch.zeros(2, MEMBERS, 5, 0)
    for own, other in zip(networks(inputs, nothing), plain(inputs, nothing), strict=True):
        assert torch.equal(own, other)


def test_the_trained_layer_in_the_latents_place_changes_no_mean(networks: LastLayerEnsemble) -> None:
    inputs = torch.randn(2, MEMBERS, 5, INPUTS)
    latent = networks.trained_layer().flatten().expand(2, MEMBERS, 5, -1)
    location, scale = networks(inputs, latent)
    torch.testing.assert_close(location, networks(inputs, latent[..., :0])[0], atol=1e-5, rtol=1e-5)
    assert torch.equal(scale, networks.noise.float()[None, :, None].expand(2, -1, 5, -1))


def test_each_row_and_member_has_its_own_layer(networks: LastLayerEnsemble) -> None:
    inputs, layers = torch.randn(MEMBERS, 5, INPUTS), torch.randn(5, *networks.layer_shape)
    location, _ = networks(inputs, layers.flatten(1).expand(MEMBERS, -1, -1))
    features = networks.features(inputs)
    assert features.shape == (MEMBERS, 5, 7)
    for m in range(MEMBERS):
        for row in range(5):
            torch.testing.assert_close(location[m, row], features[m, row] @ layers[row, m])


def test_particles_keep_their_layers_for_every_candidate(networks: LastLayerEnsemble) -> None:
    """The same as row by row, with the latents repeated for the rows of a plan."""
    environments, candidates, each = 2, 4, 3
    latents = torch.randn(MEMBERS, environments, each, networks.trained_layer().numel())
    inputs = torch.randn(MEMBERS, environments * candidates * each, INPUTS)
    rows = latents[:, :, None].expand(-1, -1, candidates, -1, -1).flatten(1, 3)
    found = networks.for_particles(latents, candidates)(inputs, rows[..., :0])
    for own, other in zip(found, networks(inputs, rows), strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)
