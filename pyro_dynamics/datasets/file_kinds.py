"""What a file of logged data is by its first bytes, for the line of an error about one that cannot be read."""

from pathlib import Path

from pyro_dynamics.errors import UserError

FIRST_BYTES = {
    b"PK\x03\x04": ".npz",
    b"PAR1": ".parquet",
    b"\x89HDF\r\n\x1a\n": ".hdf5",
    b"\x1f\x8b": ".csv.gz",
    b"\x93NUMPY": ".npy",
}
READ = ".npz, .csv, .tsv, .csv.gz, .parquet, .hdf5 and .h5"


def kind_of(file: Path) -> str | None:
    """The ending that files of this content have; None of text and what is not known here."""
    with file.open("rb") as content:
        start = content.read(8)
    return next((kind for first, kind in FIRST_BYTES.items() if start.startswith(first)), None)


def unreadable(file: Path, ending: str, why: str) -> UserError:
    """The error about a file that could not be read as what its ending says.

    Args:
        file: its path.
        ending: of files of the kind that it was read as.
        why: what the reader said.
    """
    kind = kind_of(file)
    if not file.stat().st_size:
        return UserError(f"{file} is empty: 0 bytes")
    if kind == ending:
        return UserError(f"{file} is damaged, or cut off ({why}): copy or write it anew")
    if kind == ".npy":
        return UserError(f"{file} holds one array alone: save all by numpy.savez(file, state=..., action=..., ...)")
    if kind is not None:
        return UserError(f"{file} is a {kind} file by its content: give it that ending")
    if ending == ".npz" and file.suffix.lower() != ending:
        return UserError(f"{file} is of no kind that is read ({READ})")
    if ending == ".npz":
        return UserError(
            f"{file} is not an .npz file: save one by numpy.savez(file, state=..., action=..., ...); export --npz "
            "writes a run as one"
        )
    return UserError(f"{file} is not a {ending} file, or is damaged ({why})")
