"""The fault-injection tests by what they inject, and how many of them pass."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.errors import UserError, last_line
from pyro_dynamics.io.tables import markdown_table

HEAD = ("fault", "tests", "passed", "failed", "what passing means")
ALL = ("-m", "slow or not slow")
"""By default the slow tests are not run."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        words: what.
        tests: arguments of pytest that choose the tests which inject it.
        passing: what a test that passes has seen.
    """

    words: str
    tests: tuple[str, ...]
    passing: str


FAULTS = (
    Fault(
        "files of every kind cut short, of random bytes, of another type, nested too deeply, or a pickle",
        ("tests/test_strangers.py", "-k", "damaged"),
        "refused in one line that names the file; nothing was run or made",
    ),
    Fault(
        "files that are made to run code when they are unpickled",
        ("tests/test_strangers.py", "-k", "objects"),
        "refused in one line; nothing was run",
    ),
    Fault(
        "other untrusted input: links and names that lead elsewhere, code beside a run, impossible sizes, pipes",
        ("tests/test_strangers.py", "-k", "not damaged and not objects"),
        "refused in one line, or kept inside of the folder; nothing was imported",
    ),
    Fault(
        "no network: connections, name look-ups and servers blocked during commands",
        ("tests/test_no_network.py",),
        "the command works, and asked for none",
    ),
    Fault(
        "environments that raise, hang, or give NaN, infinity, wild numbers, other shapes or types",
        ("tests/runners/test_faulty_environments.py",),
        "the fault is named by environment, context, step and field; what was collected is kept",
    ),
    Fault(
        "training and online updates that diverge, and transitions that are not finite",
        ("tests/inference/test_divergence.py",),
        "training restarts at a tenth of the rate or keeps its tensors; a belief keeps its last state",
    ),
    Fault(
        "mistakes of the user",
        ("tests/runners/test_errors.py",),
        "one line that says what to do, exit code 2, and nothing half-made",
    ),
    Fault(
        "actions under random, NaN and infinite weights, beliefs and states",
        ("tests/control/test_every_action.py",),
        "finite and within the bounds",
    ),
    Fault(
        "copies of MuJoCo environments in mid-episode",
        ("tests/environments/test_mujoco_families.py", "-k", "cop"),
        "the next steps are equal, bit for bit",
    ),
    Fault(
        "train and adapt killed (SIGKILL) at random moments and started again",
        ("tests/test_kills.py", *ALL),
        "every file has the same bytes as undisturbed",
    ),
    Fault(
        "reproduce killed, or stopped by its time budget and moved",
        ("tests/runners/test_reproduce.py", "-k", "kill or budget", *ALL),
        "rows, report and checkpoints have the same bytes as undisturbed",
    ),
    Fault(
        "sweeps: a worker killed in mid-job, damaged lists of tries",
        ("tests/runners/test_sweep.py", *ALL),
        "the job is tried again from its checkpoint, and ends as by train alone",
    ),
    Fault(
        "two processes on one run folder, and a kill of the one that has it",
        ("tests/io/test_lock.py",),
        "the second is refused in one line; after the kill the folder is free",
    ),
    Fault(
        "a full disk, a limit on file sizes, output that is not taken",
        ("tests/runners/test_full_disk.py",),
        "one line; the file before is left, and with room the command resumes",
    ),
    Fault(
        "global random generators moved by others",
        ("tests/runners/test_determinism.py",),
        "not read, not moved; the same bytes",
    ),
)


def count(fault: Fault, root: Path) -> Row:
    """Run the tests of a fault, and count them.

    Args:
        fault: which.
        root: of the checkout.

    Raises:
        UserError: if pytest could not run them.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "junit.xml")
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={file}"]
        ran = subprocess.run([*command, *fault.tests], cwd=root, capture_output=True, text=True)
        if ran.returncode not in (0, 1):
            raise UserError(f"pytest {' '.join(fault.tests)} does not run: {last_line(ran.stdout or ran.stderr)}")
        outcomes = [_outcome(case) for case in ElementTree.parse(file).iter("testcase")]
    counts = {outcome: outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")}
    return {"fault": fault.words, "tests": list(fault.tests), "passing": fault.passing, **counts}


def counts(root: Path) -> Iterator[Row]:
    """All of them, one after the other.

    Raises:
        UserError: if there are no tests, as in an installed package.
    """
    if not (root / "tests").is_dir():
        raise UserError("the fault-injection tests are in the checkout: give this command there")
    yield from (count(fault, root) for fault in FAULTS)


def _outcome(case: ElementTree.Element) -> str:
    found = {child.tag for child in case}
    if found & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in found else "passed"


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = []
    for row in rows:
        words = " ".join(f"'{word}'" if " " in word else word for word in row["tests"])
        lines.append([row["fault"], f"`{words}`", str(row["passed"]), str(row["failed"]), row["passing"]])
    return markdown_table(HEAD, lines)
