"""Break the code on purpose, one fault at a time, and see that the suite notices. A program of its own.

    python tests/mutations.py                 # all of them; some minutes
    python tests/mutations.py elites kl-scale # these
    python tests/mutations.py --list

Each fault is put into a copy of the tree, and the tests that should notice run there. A fault that they let pass is
reported, and makes the exit code 1. ``tests/test_mutations.py`` holds the list to the code as it is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Fault:
    """One way to be wrong.

    Attributes:
        name: to call it by.
        file: where it is.
        before: text that stands there once.
        after: what a careless hand would write.
        tests: what should notice.
    """

    name: str
    file: str
    before: str
    after: str
    tests: list[str]


FAULTS = [Fault(**fault) for fault in tomllib.loads((ROOT / "tests/mutations.toml").read_text())["fault"]]


def copy_tree(target: Path) -> None:
    """The files that git knows, with the links inside of the package."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            place.symlink_to(source.readlink())
        elif source.is_file():
            shutil.copy2(source, place)


def noticed(fault: Fault, tree: Path) -> bool:
    """Whether a test fails in ``tree`` while the fault is there."""
    file = tree / fault.file
    right = file.read_text()
    file.write_text(right.replace(fault.before, fault.after))
    try:
        return run_tests(fault.tests, tree) == 1  # of pytest: tests were run, and some failed
    finally:
        file.write_text(right)


def run_tests(tests: list[str], tree: Path) -> int:
    """Pytest's exit code."""
    command = [sys.executable, "-B", "-m", "pytest", "-n", "0", "-x", "-q", "-m", "", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True).returncode


def main(names: list[str]) -> int:
    """Try the faults; 1 if one was let pass."""
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        for fault in chosen:
            found = noticed(fault, Path(folder))
            missed += [] if found else [fault.name]
            print(f"{fault.name:<36}{'noticed' if found else 'LET PASS'}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} noticed")
    return int(bool(missed))


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(fault.name for fault in FAULTS))
        sys.exit()
    sys.exit(main(sys.argv[1:]))
