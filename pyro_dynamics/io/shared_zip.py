"""A run as one zip that can be handed on, and such a zip from a stranger opened as a folder."""

import os
import stat
import zipfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from shutil import copyfileobj, rmtree

from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.files import check_free_space, make_folder, reason, unfinished, write_bytes
from pyro_dynamics.io.lock import LOCK
from pyro_dynamics.io.private_text import cleaned, find_private

KINDS = (
    *(".json", ".jsonl", ".npz", ".pt", ".nc", ".md", ".html", ".csv"),
    *(".png", ".svg", ".pdf", ".gif", ".mp4"),
)
"""Endings of the files that a run has; a checkpoint's parts end in .pt.1 and so on."""
LEFT_OUT = ("tensorboard", "wandb", "trackio", "unfinished", "trackers.json", LOCK)
"""What is of this machine or not at its end, by a part of its path."""
MOST_FILES, MOST_BYTES = 20_000, 8 * 2**30
"""Of a zip that is opened; runs have some hundred files, and of the largest networks some gigabytes."""
MOST_RATIO = 200
"""Of unpacked to packed bytes: our JSON lines come to 20, and a bomb to a thousand or more."""
WHEN = (1980, 1, 1, 0, 0, 0)
"""The date of every file inside: the same run makes the same bytes."""


def shared_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files of a run that are shared, and those that are left out, each in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    shared = [file for file in files if _is_shared(file, file.relative_to(folder))]
    return shared, [file for file in files if file not in set(shared)]


def _is_shared(file: Path, inside: Path) -> bool:
    if file.is_symlink() or any(part.startswith(".") or part in LEFT_OUT for part in inside.parts):
        return False
    name = inside.name
    stem, _, number = name.rpartition(".")
    return (stem if number.isdecimal() else name).endswith(KINDS) and not name.endswith(".part")


def write_zip(folder: Path, files: list[Path], out: Path) -> None:
    """Write a run's files as a zip with one folder in it, the same bytes for the same run.

    Absolute paths in its JSON and reports are shortened to their last part.

    Args:
        folder: of the run.
        files: which of it.
        out: the zip.

    Raises:
        UserError: if a file still names this machine, its user or a place on it, or something cannot be read.
    """
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file in files:
            name = file.relative_to(folder).as_posix()
            entry = zipfile.ZipInfo(f"{folder.resolve().name}/{name}", WHEN)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, _content(file, name, folder))
    write_bytes(out, packed.getbuffer())


def _content(file: Path, name: str, folder: Path) -> bytes:
    try:
        content = cleaned(name, file.read_bytes())
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} cannot be shared: {first_line(fault)}; remove it, or make it anew") from None
    found = find_private(name, content, [folder, Path.cwd()])
    if found:
        raise UserError(
            f"{file} says where or by whom it was made ({found!r}): take that out of it, or remove the file"
        )
    return content


def is_zip(path: Path) -> bool:
    """Whether a path is meant as a zip."""
    return path.suffix == ".zip" and path.is_file()


def open_zip(path: Path) -> Path:
    """The folder of a run that was shared as a zip: unpacked beside it, once for each content.

    Args:
        path: the zip.

    Returns:
        The folder, named after the zip and the first digits of its SHA-256.

    Raises:
        UserError: if it is no zip of one run, if something in it would be written anywhere else or is no plain file, or
            if it is larger than any run.
    """
    try:
        digest = _digest(path)
        place = path.with_name(f"{path.stem}-{digest[:8]}")
        if (place / "config.json").is_file():
            return place
        with zipfile.ZipFile(path) as archive:
            entries = _checked(path, archive.infolist())
            _unpack(archive, entries, place)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, ValueError, RuntimeError) as fault:
        raise UserError(f"{path} is not a zip that can be read: {first_line(fault)}") from None
    except OSError as fault:
        raise UserError(f"cannot open {path}: {reason(fault)}") from None
    return place


def _digest(path: Path) -> str:
    found = sha256()
    with path.open("rb") as file:
        while part := file.read(2**20):
            found.update(part)
    return found.hexdigest()


def _checked(path: Path, entries: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The files by their paths inside the run's folder.

    Raises:
        UserError: naming what a shared run does not have.
    """
    files = [entry for entry in entries if not entry.is_dir()]
    size, packed = sum(entry.file_size for entry in files), path.stat().st_size
    if len(entries) > MOST_FILES or size > MOST_BYTES or size > MOST_RATIO * max(packed, 2**20):
        raise UserError(f"{path} would unpack to {len(entries)} files of {size / 2**20:.0f} MiB: that is no run")
    for entry in entries:
        _require_plain(path, entry)
    tops = {PurePosixPath(entry.filename).parts[0] for entry in files}
    found = {"/".join(PurePosixPath(entry.filename).parts[1:]): entry for entry in files}
    if len(tops) != 1 or "config.json" not in found:
        raise UserError(f"{path} does not hold one run in one folder: make such a zip by pyro-dynamics share DIR")
    if len({name.casefold() for name in found}) != len(files):
        raise UserError(f"{path} holds two files of one name")
    return found


def _require_plain(path: Path, entry: zipfile.ZipInfo) -> None:
    """Raises UserError unless an entry is a plain file or folder below the top, under a name of any system."""
    name, mode = entry.filename, entry.external_attr >> 16
    parts = name.removesuffix("/").split("/")
    odd = any(part in ("", ".", "..") or part != part.rstrip(". ") or len(part) > 200 for part in parts)
    if odd or any(ord(letter) < 32 or letter in '\\:*?"<>|' for letter in name):
        raise UserError(f"{path} holds a file named {name[:80]!r}, which could be written anywhere: it is not opened")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UserError(f"{path} holds {name[:80]!r}, which is a link or no plain file: it is not opened")


def _unpack(archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], place: Path) -> None:
    """Write the files, and bring the whole folder to its place last, unless another process has done so by then."""
    beside = unfinished(place)
    try:
        make_folder(beside)
        check_free_space(beside, sum(entry.file_size for entry in entries.values()) or 1)
        for name, entry in entries.items():
            file = beside / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as packed, file.open("xb") as unpacked:
                copyfileobj(packed, unpacked)
        os.replace(beside, place)
    except OSError:
        if not (place / "config.json").is_file():
            raise
    finally:
        rmtree(beside, ignore_errors=True)
