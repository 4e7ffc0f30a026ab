import math

import pytest
import torch
from torch.nn import functional

from pyro_dynamics.errors import UserError
from pyro_dynamics.models import Ensemble, EnsembleConfig

SMALL = EnsembleConfig(members=3, hidden=(7, 5), weight_decay=(0.1, 0.2, 0.3), bound_penalty=0.01)


def ensemble() -> Ensemble:
    torch.manual_seed(0)
    made = Ensemble(input_dim=4, latent_dim=2, output_dim=3, config=SMALL)
    for bias in made.biases:
        torch.nn.init.normal_(bias)
    made.fit_normaliser(torch.randn(50, 4) * 3 + 1)
    return made


def test_each_member_is_a_network_of_its_own() -> None:
    net = ensemble()
    inputs, latent = torch.randn(3, 6, 4), torch.randn(3, 6, 2)
    location, scale = net(inputs, latent)
    assert location.shape == scale.shape == (3, 6, 3)
    for m in range(3):
        x = torch.cat([(inputs[m] - net.input_mean) / net.input_scale, latent[m]], -1)
        for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
            x = functional.silu(x @ weight[m] + bias[m])
        x = x @ net.weights[-1][m] + net.biases[-1][m]
        upper = 0.5 - functional.softplus(0.5 - x[:, 3:])
        log_variance = -10 + functional.softplus(upper + 10)
        assert torch.allclose(location[m], x[:, :3], atol=1e-5)
        assert torch.allclose(scale[m], (0.5 * log_variance).exp(), atol=1e-5)


def test_samples_in_front_of_the_members_are_rows_like_any_other() -> None:
    net = ensemble()
    inputs, latent = torch.randn(4, 3, 6, 4), torch.randn(4, 3, 6, 2)
    location, scale = net(inputs, latent)
    for i in range(4):
        one_location, one_scale = net(inputs[i], latent[i])
        assert torch.allclose(location[i], one_location, atol=1e-6)
        assert torch.allclose(scale[i], one_scale, atol=1e-6)


def test_targets_in_another_unit_are_predicted_as_before_and_their_noise_begins_anew() -> None:
    net = ensemble()
    net.scale_noise(torch.randn(50, 3) * 7)
    inputs, latent = torch.randn(3, 6, 4), torch.randn(3, 6, 2)
    before_location, before_scale = net(inputs, latent)
    shift, factor = torch.tensor([0.0, 5.0, 0.0]), torch.tensor([1.0, 1e-3, 1.0])
    net.rescale_targets(shift, factor)
    location, scale = net(inputs, latent)
    assert torch.allclose(location, shift + factor * before_location, atol=1e-6)
    assert torch.equal(scale[..., [0, 2]], before_scale[..., [0, 2]])
    unit = math.sqrt(math.exp(0.5) * torch.sigmoid(torch.tensor(-0.5)).item() + math.exp(-10.0))
    assert torch.allclose(scale[..., 1], torch.tensor(unit))


@pytest.mark.parametrize("hidden", [(), (7,), (6, 9, 4)], ids=str)
@pytest.mark.parametrize("samples", [(), (4,)], ids=str)
def test_its_linearisation_has_its_values_and_slopes(hidden: tuple[int, ...], samples: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = Ensemble(4, 2, 3, EnsembleConfig(3, hidden, (1e-5,) * (len(hidden) + 1))).double()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)  # so that every bias and bound matters
    net.noise_factor.copy_(torch.tensor([0.2, 1.0, 3.0]))
    inputs, latent = (torch.randn(*samples, 3, 5, size, dtype=torch.float64) for size in (4, 2))
    location, scale, of_location, of_scale = net.linearised(inputs, latent)
    for found, expected in zip((location, scale), net(inputs, latent), strict=True):
        assert torch.allclose(found, expected, rtol=1e-12)
    for axis, direction in enumerate(torch.eye(2, dtype=torch.float64)):
        slopes = torch.func.jvp(lambda e: net(inputs, e), (latent,), (direction.expand_as(latent),))[1]
        for found, expected in zip((of_location, of_scale), slopes, strict=True):
            assert torch.allclose(found[..., axis, :], expected, rtol=1e-10, atol=1e-12)


def test_planning_without_gradients_gives_the_same_numbers() -> None:
    net = ensemble()
    inputs, latent = torch.randn(3, 6, 4), torch.randn(3, 6, 2)
    with torch.inference_mode():
        planned = net(inputs, latent)
    assert all(torch.equal(a, b) for a, b in zip(planned, net(inputs, latent), strict=True))


@pytest.mark.parametrize("hidden", [(7, 5), (8,), (6, 9, 4)], ids=str)
def test_rows_in_blocks_give_the_same_numbers(hidden: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_dynamics.models.ensemble.ROWS_IN_CACHE", 4)
    net = Ensemble(4, 2, 3, EnsembleConfig(3, hidden, (1e-5,) * (len(hidden) + 1)))
    inputs, latent = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 2)
    with torch.inference_mode():
        planned = net(inputs, latent)
    for a, b in zip(planned, net(inputs, latent), strict=True):
        torch.testing.assert_close(a, b)


def test_bfloat16_rounds_the_layers_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_dynamics.models.ensemble.ROWS_IN_CACHE", 4)
    monkeypatch.setattr("pyro_dynamics.models.planning_engine.can_fuse", lambda dtype: False)
    net = ensemble()
    net.planning_dtype = torch.bfloat16
    inputs, latent = torch.randn(3, 9, 4), torch.randn(3, 9, 2)
    exact = net(inputs, latent)
    for a, b in zip(net.for_planning()(inputs, latent), exact, strict=True):
        assert a.dtype == torch.float32
        assert not torch.equal(a, b)
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.05)
    for a, b in zip(net.for_planning()(inputs[:, :4], latent[:, :4]), exact, strict=True):
        assert torch.equal(a, b[:, :4]), "few rows stay in float32"


def test_weights_start_as_in_pets() -> None:
    net = Ensemble(20, 4, 3, EnsembleConfig())
    for weight in net.weights:
        bound = 2 / (2 * math.sqrt(weight.shape[1]))
        assert weight.abs().max() <= bound
        assert 0.8 * bound / 2 < weight.std() < bound / 2  # a normal cut at two sigma has 0.88 of the sd
    assert all((bias == 0).all() for bias in net.biases)


def test_variance_stays_within_the_learned_bounds_far_from_the_data() -> None:
    net = ensemble()
    _, scale = net(torch.randn(3, 100, 4) * 1e4, torch.randn(3, 100, 2))
    assert scale.max() <= math.exp(0.25) * 1.0001
    assert scale.min() >= math.exp(-5) * 0.9999


def test_normaliser_is_part_of_the_state_and_bears_a_dimension_that_never_changes() -> None:
    net = ensemble()
    inputs = torch.randn(50, 4)
    inputs[:, 2] = 5.0
    net.fit_normaliser(inputs)
    assert net.input_scale[2] == 1
    assert torch.allclose(net.input_scale[0], inputs[:, 0].std(correction=0))
    other = Ensemble(4, 2, 3, SMALL)
    other.load_state_dict(net.state_dict())
    assert torch.allclose(other.input_mean, inputs.mean(0), atol=1e-5)
    assert torch.equal(other.input_scale, net.input_scale)


def test_penalty_and_decays_equal_pets_regulariser_in_units_of_our_objective() -> None:
    net = ensemble()
    bounds = net.max_log_variance.sum() - net.min_log_variance.sum()
    decay = [f * (w**2).sum() / 2 for f, w in zip((0.1, 0.2, 0.3), net.weights, strict=True)]
    theirs = 3 / (2 * 3) * (0.01 * bounds + sum(decay))
    weights = list(net.weights)
    gradients = torch.autograd.grad(theirs, [*weights, net.max_log_variance], retain_graph=True)
    assert net.penalty().item() == pytest.approx(3 / (2 * 3) * 0.01 * bounds.item())
    for weight, gradient in zip(weights, gradients, strict=False):  # Adam adds decay times weight to a gradient
        assert torch.allclose(net.weight_decays()[weight] * weight, gradient)
    assert torch.allclose(torch.autograd.grad(net.penalty(), net.max_log_variance)[0], gradients[-1])


def test_wrong_number_of_decays_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="3 weight decays"):
        EnsembleConfig(hidden=(10, 10), weight_decay=(0.1,))
