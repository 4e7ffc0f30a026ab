"""pyro-dynamics benchmark NAME --avx2: the same on a processor that is taken for one without AVX-512 and AMX."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from os import environ
from pathlib import Path

from pyro_dynamics import benchmarks
from pyro_dynamics.errors import UserError, last_line
from pyro_dynamics.models.fused import c_compiler

FLAG = "--avx2"


def imitate(arguments: Sequence[str]) -> int:
    """Run ``pyro-dynamics benchmark`` with these arguments, and with CPUID answered as an older processor does.

    Returns:
        The exit code of that process, which prints for itself.

    Raises:
        UserError: if there is no compiler, or the system does not let CPUID be masked.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "avx2_only.so"
        source = Path(benchmarks.__file__).with_name("avx2_only.c")
        _printed([*compiler(), "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], environ)
        # torch's cache on disk takes graphs that were compiled for AVX2 and for AVX-512 for one another.
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "compiled")}
        masked = {**environ, "LD_PRELOAD": str(library), **cache}
        used = _printed([sys.executable, "-c", "import torch; print(torch.backends.cpu.get_cpu_capability())"], masked)
        if used != "AVX2":
            raise UserError(
                f"this system does not let CPUID be masked (arch_prctl): {FLAG} cannot imitate a processor here"
            )
        command = [sys.executable, "-m", "pyro_dynamics", "benchmark", *(word for word in arguments if word != FLAG)]
        return subprocess.run(command, env=masked).returncode


def compiler() -> list[str]:
    """The C compiler; raises :class:`UserError` if there is none."""
    try:
        return c_compiler()
    except OSError as fault:
        raise UserError(f"{FLAG} needs one, and {fault}") from None


def _printed(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """The last line that it prints; raises :class:`UserError` with that of its errors if it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, env=variables)
    if ran.returncode:
        raise UserError(f"{FLAG}: {Path(command[0]).name} fails: {last_line(ran.stderr)}")
    return last_line(ran.stdout)
