"""Graphs in torch's cache on disk are not taken by a processor with other vectors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
COMPILED = """
import torch
torch.set_num_threads(1)
from torch._dynamo.utils import counters
from tests.inference.compiled.test_compiled_gradients import DiagonalGuide, train
train(DiagonalGuide, compiled=True)
print(counters["inductor"]["fxgraph_cache_hit"] > 0)
"""


def takes_from_the_cache(folder: Path, level: str) -> bool:
    """Whether a training in a process with these instructions takes what it compiles from a cache in this folder."""
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "ATEN_CPU_CAPABILITY": level}
    command = [sys.executable, "-c", COMPILED]
    ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    return ran.stdout.strip() == "True"


@pytest.mark.slow
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="this processor has one kind of vectors"
)
def test_a_processor_takes_its_own_graphs_and_no_others(tmp_path: Path) -> None:
    assert not takes_from_the_cache(tmp_path, "default")
    assert not takes_from_the_cache(tmp_path, "avx2")
    assert takes_from_the_cache(tmp_path, "avx2")
