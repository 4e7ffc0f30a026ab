"""Imports MuJoCo also where ``MUJOCO_GL`` asks to draw with what is not there: whoever draws is told later."""

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
