import os
import tempfile

if level := os.environ.get("ATEN_CPU_CAPABILITY"):
    # torch's cache of compiled graphs takes those for another instruction set for its own: one for each.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"torchinductor_{level}"))

import pyro
import pytest
import torch

torch.set_num_threads(1)  # two threads beside another busy process are many times slower than one
pyro.enable_validation(True)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
