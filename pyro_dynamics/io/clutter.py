"""What systems and editors leave in folders, and nobody wrote there: looked over wherever a folder is read."""

from collections.abc import Iterable
from pathlib import Path

OF_WINDOWS = ("thumbs.db", "desktop.ini")


def is_clutter(path: Path) -> bool:
    """Whether a file or folder is hidden (``.DS_Store``, ``._x``, ``.ipynb_checkpoints``), or one that Windows made."""
    return path.name.startswith(".") or path.name.lower() in OF_WINDOWS


def without_clutter(found: Iterable[Path], folder: Path) -> list[Path]:
    """What was found in a folder, sorted, without clutter and what is in hidden folders."""
    return sorted(path for path in found if not any(is_clutter(Path(part)) for part in path.relative_to(folder).parts))
