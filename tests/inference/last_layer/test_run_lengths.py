"""Run lengths beside the recursion of Adams and MacKay by brute force: a sum over all histories of changes."""

import itertools
import math

import pytest
import torch

from pyro_dynamics.inference.beliefs import ChangepointConfig
from pyro_dynamics.inference.last_layer import Layers
from pyro_dynamics.inference.last_layer.run_lengths import RunLengths

HAZARD, NOISE, STEPS = 0.2, 0.5, 6
OBSERVED = torch.tensor([0.3, 0.1, 0.4, 2.9, 3.1, 3.0]).double()
PRIOR = Layers(torch.zeros(1, 1, 1).double(), torch.full((1, 1, 1), 16.0).double())


def log_evidence(rows: torch.Tensor) -> float:
    """log p(rows) of one run: y = w + noise, with w of the prior."""
    layers, total = PRIOR, 0.0
    for y in rows:
        layers, evidence = layers.absorb(torch.ones(1, 1).double(), y[None], torch.tensor([[NOISE]]).double())
        total += float(evidence)
    return total


def joint(changes: tuple[int, ...], rows: torch.Tensor) -> float:
    """log p(rows, a change before exactly these steps)."""
    steps = len(rows)
    total = sum(math.log(HAZARD if t in changes else 1 - HAZARD) for t in range(1, steps))
    ends = [0, *changes, steps]
    return total + sum(log_evidence(rows[a:b]) for a, b in itertools.pairwise(ends))


def by_brute_force(rows: torch.Tensor) -> dict[int, float]:
    """log p(rows, the last change before step t), by t; 0 for none."""
    steps = range(1, len(rows))
    found: dict[int, list[float]] = {}
    for changes in itertools.chain.from_iterable(itertools.combinations(steps, n) for n in range(len(rows))):
        found.setdefault(changes[-1] if changes else 0, []).append(joint(changes, rows))
    return {t: float(torch.tensor(values, dtype=torch.float64).logsumexp(0)) for t, values in found.items()}


def followed(rows: torch.Tensor) -> tuple[RunLengths, float]:
    """Run lengths after some rows, and log p of them all by predictions made with the hazard of the coming step."""
    config = ChangepointConfig(hazard=HAZARD, hypotheses=8, spacing=1, patience=6)
    runs, total = RunLengths.fresh(config, 1), 0.0
    layers = PRIOR.repeated(1, 9)
    here, phi, noise = torch.tensor([0]), torch.ones(1, 1).double(), torch.tensor([[NOISE]]).double()
    for y in rows:
        _, evidence = layers.absorb(phi, y[None], noise)
        total += float((runs.with_coming() + evidence[..., 0]).logsumexp(1))
        runs, index, place = runs.begun(here)
        if len(index):
            layers = layers.replaced((index, place), PRIOR.repeated(1))
        after, evidence = layers[:, :8].absorb(phi, y[None], noise)
        layers, runs = layers.replaced((here, slice(8)), after), runs.absorbed(here, evidence[..., 0])
    return runs, total


@pytest.mark.parametrize("steps", range(1, STEPS + 1))
def test_weights_are_those_of_all_histories(steps: int) -> None:
    rows = OBSERVED[:steps]
    runs, _ = followed(rows)
    expected = by_brute_force(rows)
    total = torch.tensor(list(expected.values()), dtype=torch.float64).logsumexp(0)
    weights = {
        steps - int(length): float(weight)
        for length, weight in zip(runs.length[0], runs.log_weight[0], strict=True)
        if weight.isfinite()
    }
    assert weights.keys() == expected.keys()
    for t, weight in weights.items():
        assert weight == pytest.approx(float(expected[t] - total), abs=1e-9)


def test_predictions_with_the_coming_hazard_multiply_to_the_evidence() -> None:
    """Of all six rows, the fourth of which is the first after a change; without the hazard they do not."""
    _, total = followed(OBSERVED)
    expected = torch.tensor(list(by_brute_force(OBSERVED).values()), dtype=torch.float64).logsumexp(0)
    assert total == pytest.approx(float(expected), abs=1e-9)


def test_a_change_is_reported_where_a_young_run_takes_over() -> None:
    config = ChangepointConfig(hazard=0.01, hypotheses=4, spacing=1, patience=2)
    runs, both = RunLengths.fresh(config, 2), torch.tensor([0, 1])
    for step in range(8):
        runs, _, _ = runs.begun(both)
        evidence = torch.zeros(2, 4).double()
        if step == 6:  # the run that begins with this step explains it far better, in the second environment
            evidence[1] = torch.where(runs.length[1] == 0, 20.0, 0.0).double()
        runs = runs.absorbed(both, evidence)
        assert runs.changed.tolist() == [False, step == 6]


def test_environments_that_see_nothing_stay_as_they_are() -> None:
    runs = RunLengths.fresh(ChangepointConfig(), 3)
    for _ in range(9):
        runs, index, _ = runs.begun(torch.tensor([1]))
        assert set(index.tolist()) <= {1}
        runs = runs.absorbed(torch.tensor([1]), torch.randn(1, 8).double())
    fresh = RunLengths.fresh(ChangepointConfig(), 3)
    for name in ("log_weight", "length", "steps"):
        assert torch.equal(getattr(runs, name)[[0, 2]], getattr(fresh, name)[[0, 2]])
    assert int(runs.steps[1]) == 9


def test_without_changes_there_is_one_run_forever() -> None:
    runs = RunLengths.fresh(None, 1)
    for _ in range(30):
        runs, index, _ = runs.begun(torch.tensor([0]))
        assert not len(index)
        runs = runs.absorbed(torch.tensor([0]), torch.randn(1, 1).double())
    assert runs.with_coming().exp().tolist() == [[1.0, 0.0]]
    assert not runs.changed.any()
