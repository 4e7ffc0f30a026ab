"""Online updates for ever: neither their time nor the memory may grow."""

import gc
import time
from pathlib import Path

import pytest
import torch

from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import BELIEFS, KalmanUpdate, KalmanUpdateConfig, SVIUpdate, SVIUpdateConfig
from pyro_dynamics.models import HierarchicalModel, LinearGaussian

pytestmark = pytest.mark.slow

STATUS = Path("/proc/self/statm")


@pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    "rule", [KalmanUpdate(KalmanUpdateConfig()), SVIUpdate(SVIUpdateConfig(steps=2))], ids=["kalman", "svi"]
)
@pytest.mark.parametrize("name", BELIEFS)
def test_time_and_memory_of_an_update_do_not_grow(name: str, rule: object, generator: torch.Generator) -> None:
    likelihood = LinearGaussian(2, 2, 3, 1.0, 2, generator)
    guide = DiagonalGuide(1, 2).for_environments(1)
    belief = BELIEFS[name](HierarchicalModel(likelihood, 1, 2), guide, rule)  # type: ignore[arg-type]
    index, seconds = torch.zeros(1, dtype=torch.long), []
    memory = 0
    for step in range(240):
        inputs = torch.randn(1, 2, generator=generator)
        targets = likelihood(inputs, torch.ones(1, 2))[0] + torch.randn(1, 3, generator=generator)
        start = time.process_time()
        belief.update(inputs, targets, index, generator)
        seconds.append(time.process_time() - start)
        if step == 80:
            gc.collect()
            memory = int(STATUS.read_text().split()[1])
    gc.collect()
    grown = (int(STATUS.read_text().split()[1]) - memory) * 4096 / 2**20
    assert grown < 8  # MiB in 160 updates
    early, late = (sorted(part)[30] for part in (seconds[50:110], seconds[-60:]))
    assert late < 2 * early + 1e-3  # medians: a cost that grows with the stream would have doubled
