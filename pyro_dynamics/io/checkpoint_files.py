"""Checkpoints on disk, in files that are small enough for mail, git hosts and object stores."""

from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from pyro_dynamics.data_files import require_file
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.files import write_bytes

LARGEST = 15 * 2**20
"""Bytes of a file."""
PARTS = "parts"
"""The one key of what stands in the main file where a checkpoint has parts: their SHA-256, in order."""


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state as ``path`` or, where that would be too large, as ``path.1``, ``path.2``, ... and a list of them.

    The file ``path`` is written last: where it is, the checkpoint is whole.

    Raises:
        UserError: if a file cannot be written.
    """
    content = _saved(state)
    for left in _others(path):  # of one that was killed
        left.unlink(missing_ok=True)
    if len(content) > LARGEST:
        parts = [content[start : start + LARGEST] for start in range(0, len(content), LARGEST)]
        for number, part in enumerate(parts, 1):
            write_bytes(_part(path, number), part)
        content = _saved({PARTS: [sha256(part).hexdigest() for part in parts]})
    write_bytes(path, content)


def load_state(path: Path) -> dict[str, Any]:
    """What :func:`save_state` wrote.

    Raises:
        UserError: if a file is no checkpoint or holds more than tensors and plain values, or a part is missing or of
            another checkpoint.
    """
    try:
        require_file(path)
        state = _loaded(path.read_bytes())
        if isinstance(state, dict) and set(state) == {PARTS}:
            state = _loaded(_joined(path, state[PARTS]))
        if not isinstance(state, dict):
            raise ValueError("it holds no state")
    except UserError:
        raise
    except Exception as fault:  # torch raises many kinds for a file that is not a checkpoint
        code = "Weights only load failed" in str(fault)  # after that torch says how to run it
        why = "it holds more than tensors and plain values, or is damaged" if code else first_line(fault)
        raise UserError(f"{path} is not a checkpoint ({why}): copy it anew, or choose another --checkpoint") from None
    return state


def _loaded(content: bytes) -> Any:
    """What the bytes of a checkpoint say, none of which is run; raises exceptions of many kinds for other bytes."""
    return torch.load(BytesIO(content), map_location="cpu", weights_only=True)


def _tensors(state: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors, each with the way to it."""
    if isinstance(state, torch.Tensor):
        yield name.removeprefix("."), state
    elif isinstance(state, dict | list | tuple):
        for key, part in state.items() if isinstance(state, dict) else enumerate(state):
            yield from _tensors(part, f"{name}.{key}")


def require_finite(path: Path, state: Any) -> None:
    """Refuse weights, moments or scales that are NaN or infinite: no prediction of theirs means anything.

    Raises:
        UserError: naming the file and the tensor.
    """
    for name, tensor in _tensors(state):
        wrong = int((~tensor.isfinite()).sum())
        if wrong:
            raise UserError(
                f"{path} cannot be used: {wrong} of the {tensor.numel()} numbers of {name[:200]} are not finite; "
                "choose another --checkpoint, or train again"
            )


def drop_state(path: Path) -> None:
    """Remove a checkpoint and its parts, and what a killed run left of them."""
    path.unlink(missing_ok=True)  # first: without it there is no checkpoint
    for other in _others(path):
        other.unlink(missing_ok=True)


def _saved(state: dict[str, Any]) -> bytes:
    buffer = BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def _joined(path: Path, digests: list[str]) -> bytes:
    contents: list[bytes] = []
    for number, digest in enumerate(digests, 1):
        part = _part(path, number)
        where = f"part {number} of the {len(digests)} of {path}"
        try:
            require_file(part)
            contents.append(part.read_bytes())
        except OSError as fault:
            raise UserError(
                f"{part.name}, {where}, cannot be read ({fault.strerror}): copy it there from where the run was made"
            ) from None
        if sha256(contents[-1]).hexdigest() != digest:
            raise UserError(
                f"{part.name} is not {where}, but damaged or of another checkpoint: copy it anew from where the run "
                "was made"
            )
    return b"".join(contents)


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _others(path: Path) -> list[Path]:
    """Parts, and unfinished files."""
    return list(path.parent.glob(f"{path.name}.*"))
