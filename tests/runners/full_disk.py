"""Commands on a disk that fills up: a real file system of limited size, at many sizes. A program of its own.

    unshare -rm python tests/runners/full_disk.py 20                  all cases, 20 sizes each, drawn with seed 0
    unshare -rm python tests/runners/full_disk.py 20 7 train export   two cases, with seed 7
    unshare -m python tests/runners/full_disk.py 20 0 --ext4          as root: an ext4 image in place of a tmpfs

``unshare`` gives it a table of mounts of its own, so that nothing stays mounted however it ends; -r lets who is not
root do so, where the system allows that.

A size takes two runs of the command: seconds for most, some twenty for diagnose and reproduce. Each command first runs
with room enough. Then, for each size, the same command runs on a disk with only a part of the
room that it took, is looked at (see :func:`look_at`), gets room, and must go on to the same files. Prints a line for
each case: on how many disks it was refused, and what could not be written.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from shutil import copytree, rmtree

import h5py
import torch

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.main import main

SMALL = (
    "--steps 10 --episodes 1 --offline.min-steps 2 --offline.epochs 1 --ensemble.weight-decay 0 0 --precision float32 "
    "--controller.horizon 2 --controller.particles 3 --planner.candidates 6 --planner.elites 2 --planner.iterations 1"
)
LEARN = f"train {SMALL} --rounds 3 --ensemble.hidden 48 --keep-checkpoints 0 1 2 3 --out DISK/run"
REPRODUCE = "reproduce --preset quick --seeds 1 --baseline-seeds 1 --out DISK/results"


@dataclass(frozen=True)
class Case:
    """A command; whether it needs a run, and how it is gone on with where that is by another command."""

    command: str
    needs_run: bool = True
    again: str = ""


CASES = {
    "train": Case(LEARN, False, "train --resume DISK/run"),
    "train-in-parts": Case(  # a checkpoint of more than 15 MiB
        f"train {SMALL} --rounds 1 --ensemble.hidden 640 640 --ensemble.weight-decay 0 0 0 --out DISK/run",
        False,
        "train --resume DISK/run",
    ),
    "train-tensorboard": Case(f"{LEARN} --tensorboard", False, "train --resume DISK/run --tensorboard"),
    "adapt": Case("adapt DISK/run --context 5 --steps 8 --quiet"),
    "adapt-video": Case("adapt DISK/run --context 5 --steps 60 --quiet --video"),
    "evaluate": Case("evaluate DISK/run --steps 5 --episodes 2"),
    "diagnose": Case("diagnose DISK/run --draws 100 --particles 20"),
    "export": Case("export DISK/run --npz DISK/all.npz --csv DISK/all.csv"),
    "export-minari": Case("export DISK/run --minari DISK/data-v0"),
    "track": Case("track DISK/run --schedule 0:3,5:9 --steps 12 --seeds 1 --updates kalman --beliefs told exact"),
    "compare": Case("compare DISK/run --out DISK/pictures/curves.png"),
    "reproduce-learning": Case(f"{REPRODUCE} --figures learning", False),
    "reproduce": Case(REPRODUCE, False),
}
TIMED = ("track/",)
"""What tells milliseconds: it is not the same twice."""
EVENTS = "tensorboard"
"""Its folder's files have other names each time, and are for TensorBoard to read as far as they go."""
ERROR = "pyro-dynamics: error: "
NO_ROOM = ("No space left on device", "is there room on the disk?")


class Disk:
    """A mounted file system of a size that can be changed, at one place."""

    def __init__(self, place: Path, ext4: bool) -> None:
        self.place, self.ext4 = place, ext4
        self.image = place.with_name("image")
        place.mkdir()
        if ext4:
            with self.image.open("wb") as file:
                file.truncate(256 * 2**20)
            call("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(self.image))
            call("mount", "-o", "loop", str(self.image), str(place))
        else:
            call("mount", "-t", "tmpfs", "-o", "size=1g", "disk", str(place))
        self.ballast = place.with_name("ballast") if not ext4 else place / "ballast"

    def empty(self) -> None:
        self.widen()
        for entry in self.place.iterdir():
            if entry.name != "lost+found":
                rmtree(entry) if entry.is_dir() else entry.unlink()

    def used(self) -> int:
        """Bytes."""
        found = os.statvfs(self.place)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def narrow(self, room: int) -> None:
        """Leave so many bytes, in whole blocks."""
        if not self.ext4:
            call("mount", "-o", f"remount,size={self.used() + room // 4096 * 4096}", str(self.place))
            return
        found = os.statvfs(self.place)
        with self.ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, found.f_bavail * found.f_frsize - room))

    def widen(self) -> None:
        """Make room."""
        if self.ext4:
            self.ballast.unlink(missing_ok=True)
        else:
            call("mount", "-o", "remount,size=1g", str(self.place))

    def files(self) -> dict[str, bytes]:
        """What is there, without what is there for our own sake."""
        found = {str(file.relative_to(self.place)): file for file in self.place.rglob("*") if file.is_file()}
        return {
            name: file.read_bytes()
            for name, file in found.items()
            if file != self.ballast and file.parent.name != EVENTS
        }


def call(*words: str) -> None:
    for wait in (1, 2, 4, 0):  # on a busy machine a mount may fail, and succeed a moment later
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode == 0:
            return
        time.sleep(wait)
    sys.exit(f"{' '.join(words)}: {done.stderr}")


def warm(command: str, disk: Disk) -> None:
    """The command in this process, with room enough; what it imports, which takes seconds, is there for the forks."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        assert main(words(command, disk)) == 0


def run(command: str, disk: Disk) -> tuple[int, str]:
    """The command in a process of its own, which ends as Python does; its exit code, and what it told as errors."""
    told = disk.place.with_name("told")
    child = os.fork()
    if child == 0:
        for stream, file in ((1, os.devnull), (2, told)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.exit(main(words(command, disk)))
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    lines = told.read_text(errors="replace").splitlines()
    return code, "\n".join(line for line in lines if "%|" not in line and line.strip())  # without bars of progress


def words(command: str, disk: Disk) -> list[str]:
    return command.replace("DISK", str(disk.place)).split()


def try_case(name: str, sizes: int, draws: random.Random, disk: Disk, run_before: Path) -> bool:
    """All sizes of one case; whether every one of them was survived."""
    case, started = CASES[name], time.monotonic()

    def prepare() -> None:
        disk.empty()
        if case.needs_run:
            copytree(run_before, disk.place, dirs_exist_ok=True)

    prepare()
    before, used = disk.files(), disk.used()
    warm(case.command, disk)
    wanted, grown = disk.files(), disk.used() - used
    problems: list[str] = []
    where: Counter[str] = Counter()
    for index in range(sizes):
        room = int((index + draws.random()) / sizes * grown)
        prepare()
        disk.narrow(room)
        code, told = run(case.command, disk)
        if code == 0:  # blocks are whole: it had room enough
            where["(room enough)"] += 1
            continue
        where[named(told, disk)] += 1
        found = look_at(disk, code, told, before, wanted)
        disk.widen()
        found += checkpoints(disk)
        again = case.again if case.again and (disk.place / "run" / "config.json").is_file() else case.command
        code, told = run(again, disk)
        found += [f"with room it ended with {code}: {told}"] if code else differences(disk.files(), wanted)
        problems += [f"{room // 1024} KiB: {words}" for words in found]
    refused = sizes - where["(room enough)"]
    lost = len({words.split(":")[0] for words in problems})
    print(f"{name}: {refused} disks too small, {refused - lost} survived ({time.monotonic() - started:.0f} s)")
    print("".join(f"  {count:>4}  {what}\n" for what, count in where.most_common()), end="")
    print("".join(f"  PROBLEM with {words}\n" for words in problems), end="", flush=True)
    return not problems


def named(told: str, disk: Disk) -> str:
    """What could not be written, out of the line."""
    last = told.splitlines()[-1] if told else "(nothing told)"
    return last.removeprefix(ERROR).replace(str(disk.place), "DISK")


def look_at(disk: Disk, code: int, told: str, before: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """What is wrong after a command that had too little room: it must end with code 2 and one line, which says so.

    Nothing may be left that is begun, and every file must be as it was before or as it is in the end; of one that grows
    by lines, the first lines.
    """
    lines = told.splitlines()
    problems = [] if code == 2 else [f"code {code}"]
    if len(lines) != 1 or not lines[0].startswith(ERROR) or not any(words in lines[0] for words in NO_ROOM):
        problems.append(f"told {told!r}")
    found = disk.files()
    for name, content in found.items():
        if name.endswith(".part") or ".part." in name:
            problems.append(f"{name} is left")
        elif not any(same(name, content, files.get(name)) for files in (wanted, before)) and not dated(name):
            problems.append(f"{name} is half written ({len(content)} bytes)")
    return problems + [f"{name} is gone" for name in before if name not in found]


def same(name: str, content: bytes, wanted: bytes | None) -> bool:
    """Whether a file is the one that is wanted, or the beginning of it in whole lines."""
    if wanted is None or content == wanted:
        return content == wanted
    if name.endswith(".jsonl"):
        return wanted.startswith(content) and content[-1:] in (b"", b"\n")
    return name.endswith((".nc", ".hdf5")) and arrays(content) == arrays(wanted)  # which hold when they were written


def arrays(content: bytes) -> dict[str, bytes]:
    """What a file of HDF5 holds."""
    found: dict[str, bytes] = {}
    try:
        with h5py.File(BytesIO(content)) as file:
            file.visititems(lambda name, it: found.update({name: it[()].tobytes() if hasattr(it, "dtype") else b""}))
    except (OSError, RuntimeError):
        found["(damaged)"] = content
    return found


def dated(name: str) -> bool:
    """Whether a file may differ from run to run, or is one that an undisturbed run drops."""
    return name.startswith(TIMED) or name.endswith("metadata.json") or "checkpoints/" in name


def checkpoints(disk: Disk) -> list[str]:
    """What is wrong with the newest checkpoint of every run."""
    problems = []
    for config in disk.place.rglob("config.json"):
        folder = RunFolder.open(config.parent)
        try:
            if folder.last_round is not None:
                folder.checkpoint()
                folder.metrics()
        except UserError as fault:
            problems.append(str(fault))
    return problems


def differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """What is not as after an undisturbed run."""
    names = {name for name in found.keys() | wanted.keys() if not dated(name) or (name in wanted and name not in found)}
    return [
        f"with room {name} is not as it should be"
        for name in sorted(names)
        if name not in found or (not dated(name) and (name not in wanted or not same(name, found[name], wanted[name])))
    ]


def main_(arguments: list[str]) -> int:
    """All cases that are named; 1 if one was not survived."""
    ext4 = "--ext4" in arguments
    sizes, *more = [word for word in arguments if word != "--ext4"]
    seed, *names = more or ["0"]
    torch.set_num_threads(1)
    home = Path(tempfile.mkdtemp())
    disk = Disk(home / "disk", ext4)
    warm(LEARN, disk)
    copytree(disk.place, home / "before", ignore=lambda *_: ["lost+found"])
    draws = random.Random(int(seed))
    survived = [try_case(name, int(sizes), draws, disk, home / "before") for name in names or CASES]
    call("umount", str(disk.place))
    rmtree(home)
    return int(not all(survived))


if __name__ == "__main__":
    sys.exit(main_(sys.argv[1:]))
