"""Where recorded rows come from: commit, date and processor, stored beside them and printed below their tables."""

import datetime
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pyro_dynamics.version import __version__

PACKAGE = Path(__file__).resolve().parents[1]
CODE = ("pyro_dynamics", "models", "guides", "runners")
"""Folders of a checkout whose changes make its commit a wrong name for what ran."""
INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 BF16",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "sve": "SVE",
}
"""What decides which kernels run, by the words of ``/proc/cpuinfo``."""


UNKNOWN = {"version": "unknown"}
"""Of rows beside which nothing was stored."""


def provenance() -> dict[str, Any]:
    """What ran here and now, as plain data.

    Returns:
        ``commit`` (None outside of a checkout) and whether its code was ``modified``, ``version``, ``date`` (UTC),
        ``processor`` and its ``instructions``, ``instructions_used`` (by torch's own code), ``cores``, ``load``
        (processes that wanted a core in the last minute, None where the system does not say), ``torch`` and its
        ``threads``.
    """
    commit = _git("rev-parse", "HEAD") if _is_tracked() else None
    model, instructions = _processor()
    return {
        "commit": commit,
        "modified": bool(commit and _git("status", "--porcelain", "--", *CODE, top=True)),
        "version": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": model,
        "instructions": instructions,
        "instructions_used": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def describe_provenance(values: Mapping[str, Any]) -> str:
    """One line below a table; what was not recorded says so.

    Args:
        values: as :func:`provenance` gives them; any may be missing, as in rows from before they were stored, which
            have ``recorded_in``, the commit that added them, in place of ``commit``.
    """
    if values.get("recorded_in"):
        origin = f"Rows recorded in commit {values['recorded_in'][:7]}"
    elif values.get("commit"):
        origin = f"Rows of commit {values['commit'][:7]}{' with changes' if values.get('modified') else ''}"
    else:
        origin = f"Rows of version {values.get('version', 'unknown')}"
    parts = [origin, str(values.get("date", "date not recorded")), describe_machine(values)]
    if values.get("threads"):
        parts.append(f"{values['threads']} thread{'s' if values['threads'] > 1 else ''}")
    if values.get("torch"):
        parts.append(f"torch {values['torch']}")
    return ", ".join(parts) + "."


def is_masked(values: Mapping[str, Any]) -> bool:
    """Whether a processor with AVX-512 was taken for one without, as ``benchmark --avx2`` does."""
    return values.get("instructions_used") == "AVX2" and "AVX-512" in values["instructions"]


def describe_machine(values: Mapping[str, Any]) -> str:
    """Its processor and cores in words, and their load where it was recorded.

    Args:
        values: as :func:`provenance` gives them; any may be missing.
    """
    if not values.get("processor"):
        return "processor not recorded"
    found = [values["processor"]]
    if values.get("instructions"):
        masked = ", of which AVX2 was used" if is_masked(values) else ""
        found.append(f"with {', '.join(values['instructions'])}{masked}")
    if values.get("cores"):
        load = "" if values.get("load") is None else f" under a load of {values['load']}"
        found.append(f"({values['cores']} cores{load})")
    return " ".join(found)


def _processor() -> tuple[str, list[str]]:
    """Name and instruction sets of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine(), []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
    flags = fields.get("flags", fields.get("Features", "")).split()
    return fields.get("model name", platform.machine()), [
        words for flag, words in INSTRUCTIONS.items() if flag in flags
    ]


def _is_tracked() -> bool:
    """Whether the package lies in a checkout of its own, and not in an environment inside of another's."""
    return _git("ls-files", "--error-unmatch", "version.py") is not None


def _git(*arguments: str, top: bool = False) -> str | None:
    """What git prints about the package, or None if it cannot."""
    folder = PACKAGE.parent if top else PACKAGE
    try:
        ran = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None
