import pyro
import pytest
import torch

torch.set_num_threads(1)  # two threads beside another busy process are many times slower than one
pyro.enable_validation(True)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
