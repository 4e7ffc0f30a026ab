"""Where rows come from: read from git, the clock and the processor, and printed in one line."""

import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pyro_dynamics.io import provenance as module
from pyro_dynamics.io.provenance import describe_provenance, provenance
from pyro_dynamics.version import __version__

ROOT = Path(__file__).parents[2]


def test_it_names_the_commit_and_the_day() -> None:
    found = provenance()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    assert found["commit"] == (head or None)
    assert found["version"] == __version__
    today = datetime.datetime.now(datetime.UTC).date()
    assert today - datetime.date.fromisoformat(found["date"]) <= datetime.timedelta(days=1)
    assert (found["torch"], found["threads"]) == (torch.__version__, torch.get_num_threads())
    assert found["cores"] == os.cpu_count()


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_changes_are_noticed_and_a_repository_around_the_package_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pyro_dynamics"
    package.mkdir()
    (package / "version.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("pyro_dynamics/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "-q", "-m", "somebody's project")
    monkeypatch.setattr(module, "PACKAGE", package)
    assert provenance()["commit"] is None  # installed into an environment inside of somebody's project
    git(tmp_path, "add", "-f", "pyro_dynamics")
    git(tmp_path, "commit", "-q", "-m", "a checkout")
    assert len(provenance()["commit"]) == 40
    assert not provenance()["modified"]
    (package / "version.py").write_text("two\n")
    assert provenance()["modified"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo")
def test_the_processor_has_the_name_that_the_system_gives_it() -> None:
    found = provenance()
    text = Path("/proc/cpuinfo").read_text()
    assert found["processor"] in text or "model name" not in text
    assert ("AVX-512" in found["instructions"]) == (" avx512f" in text)


def test_one_line_says_what_is_known() -> None:
    values = {"commit": "0123456789", "modified": False, "date": "2026-01-02", "processor": "Some CPU", "cores": 2}
    values |= {"instructions": ["AVX2"], "load": 0.5, "torch": "2.13.0", "threads": 1}
    line = (
        "Rows of commit 0123456, 2026-01-02, Some CPU with AVX2 (2 cores under a load of 0.5), 1 thread, torch 2.13.0."
    )
    assert describe_provenance(values) == line
    masked = {**values, "instructions": ["AVX2", "AVX-512"], "instructions_used": "AVX2"}
    assert "Some CPU with AVX2, AVX-512, of which AVX2 was used (2 cores" in describe_provenance(masked)
    assert describe_provenance({**values, "instructions_used": "AVX2"}) == line
    assert describe_provenance({**values, "modified": True}).startswith("Rows of commit 0123456 with changes, ")
    old = {"recorded_in": "fedcba9876", "date": "2026-01-01"}
    assert describe_provenance(old) == "Rows recorded in commit fedcba9, 2026-01-01, processor not recorded."
    words = "Rows of version unknown, date not recorded, processor not recorded."
    assert describe_provenance(module.UNKNOWN) == words
