"""Whether the tests provoke every error that a user can cause, each where it is made. A program of its own.

    python tests/provoked_errors.py                                  # the whole suite; as long as that takes
    python tests/provoked_errors.py --record told.json               # and keep which test provoked what
    python tests/provoked_errors.py --record told.json --add FILE .. # run these alone, and add what they provoke

The tests run in a copy of the tree, in which a UserError writes down the line that makes it and the test that runs:
also in the processes that a test starts, and in theirs. The lines are held against those that ``user_errors.py`` reads
off the sources. A place that none has reached is told, and makes the exit code 1, as does a test that fails.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from mutations import copy_tree
from user_errors import messages

Record = dict[str, list[str]]
"""The tests that provoke an error, by its name."""

RECORDER = """

def _written_down(error: UserError, *words: object) -> None:
    import os
    import resource
    import sys

    maker = sys._getframe(1)
    line = "\\t".join((maker.f_code.co_filename, str(maker.f_lineno), os.environ.get("PYTEST_CURRENT_TEST", "")))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))  # a test may have lowered it
    log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, (line + "\\n").encode())  # in one go, so that the lines of several processes stay whole
    os.close(log)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    Exception.__init__(error, *words)


UserError.__init__ = _written_down
"""
"""Goes below the errors, in the copy alone. The log's name stands in it, as a test may clear the environment."""


def names() -> dict[str, str]:
    """What to call each error, by file:line: its file and words, which stay when lines are put in above it."""
    seen: Counter[str] = Counter()
    found = {}
    for message in sorted(messages(), key=lambda message: int(message.where.split(":")[1])):
        name = f"{message.where.split(':')[0]}: {message.text}"
        seen[name] += 1
        found[message.where] = name + (f" [{seen[name]}]" if seen[name] > 1 else "")
    return found


def run_recorded(tests: list[str]) -> tuple[Record, int]:
    """What the tests provoke, and pytest's exit code."""
    name_at = names()  # before somebody changes the sources while the tests run
    with tempfile.TemporaryDirectory() as folder:
        tree, log = Path(folder).resolve() / "tree", Path(folder) / "log"
        tree.mkdir()
        copy_tree(tree)
        subprocess.run("git init -q && git add .", shell=True, cwd=tree, check=True)  # a test asks it for its files
        with (tree / "pyro_dynamics/errors.py").open("a") as file:
            file.write(RECORDER.format(log=str(log)))
        log.touch()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
        code = subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}).returncode
        return read_log(log, tree, name_at), code


def read_log(log: Path, tree: Path, name_at: dict[str, str]) -> Record:
    """The lines in the log, as names; what is not made where the sources say (by unpickling, say) has none."""
    found: dict[str, set[str]] = {}
    for line in set(log.read_text().splitlines()):
        file, number, test = line.split("\t")
        place = Path(file).resolve()
        name = name_at.get(f"{place.relative_to(tree)}:{number}") if place.is_relative_to(tree) else None
        if name and test:
            found.setdefault(name, set()).add(test.removesuffix(" (call)").removesuffix(" (setup)"))
    return {name: sorted(tests) for name, tests in found.items()}


def merged(old: Record, new: Record) -> Record:
    """Both, with the names that there are now."""
    pairs = {name: sorted({*old.get(name, ()), *new.get(name, ())}) for name in sorted(names().values())}
    return {name: tests for name, tests in pairs.items() if tests}


def main() -> int:
    """Run the tests; 1 if one fails, or an error is left that none provokes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, help="a file to keep which tests provoke which error")
    parser.add_argument("--add", nargs="+", default=[], metavar="FILE", help="run these, and add to the record")
    chosen = parser.parse_args()
    found, code = run_recorded(chosen.add)
    old = json.loads(chosen.record.read_text()) if chosen.add and chosen.record and chosen.record.exists() else {}
    found = merged(old, found)
    if chosen.record:
        chosen.record.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    missed = {where: name for where, name in names().items() if name not in found}
    for where, name in sorted(missed.items()):
        print(f"NOT PROVOKED {where} {name.split(': ', 1)[1]}")
    print(f"{len(names()) - len(missed)} of {len(names())} errors are provoked")
    return int(bool(missed) or code != 0)


if __name__ == "__main__":
    sys.exit(main())
