"""No search and no update looks at a value on the GPU or leaves it: for every planner, family and guide."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_searches_and_updates_stay_on_a_pretended_gpu() -> None:
    script = Path(__file__).parents[1] / "pretended_gpu.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    assert lines[:2] == [
        "a look at a value raises DataDependentOutputException",
        "tensors of two devices raises FakeTensorDeviceMismatchError",
    ], ran.stderr
    assert [line for line in lines[2:] if not line.endswith(": stays on the GPU")] == []
    assert len(lines) > 70
    assert ran.returncode == 0, ran.stderr
