"""Imports MuJoCo even if ``MUJOCO_GL`` names a missing backend: the error then comes with the first rendering."""

import importlib
import os

chosen = os.environ.get("MUJOCO_GL")
try:
    importlib.import_module("mujoco")
except Exception:  # down to a missing attribute of a library that was not found
    if chosen is None:
        raise
    del os.environ["MUJOCO_GL"]
    try:
        importlib.import_module("mujoco")
    finally:
        os.environ["MUJOCO_GL"] = chosen
