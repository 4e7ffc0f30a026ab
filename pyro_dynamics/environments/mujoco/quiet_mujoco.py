"""MuJoCo without notices that do not concern the user."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco


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
