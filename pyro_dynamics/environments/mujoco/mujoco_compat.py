"""MuJoCo as it is needed here: imported without a display, and without notices that do not concern the user."""

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def import_mujoco() -> ModuleType:
    """Import MuJoCo even if ``MUJOCO_GL`` names a missing backend: the error then comes with the first rendering."""
    chosen = os.environ.get("MUJOCO_GL")
    try:
        return importlib.import_module("mujoco")
    except Exception:  # down to a missing attribute of a library that was not found
        if chosen is None:
            raise
    del os.environ["MUJOCO_GL"]
    try:
        return importlib.import_module("mujoco")
    finally:
        os.environ["MUJOCO_GL"] = chosen


mujoco = import_mujoco()


@contextmanager
def without_settotalmass_warning() -> Iterator[None]:
    """Drop MuJoCo's deprecation notice about Gymnasium's own model file; any other warning becomes a Python one."""

    def forward(message: str) -> None:
        if "settotalmass" not in message:
            warnings.warn(message, stacklevel=2)

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(forward)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
