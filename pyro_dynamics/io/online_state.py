"""A run, and where a belief about one environment stands, in one folder: what ``OnlineAgent.save`` writes."""

import shutil
from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import parse_json
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.checkpoint_files import load_state, save_state
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.files import make_folder, path_of
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.untrusted_folders import require_own_code

FILE = "online.pt"
PARTS = ("config.json", "environment.json", "data.json", "metrics.jsonl", "learning.jsonl", "training.png", "fit.png")
FOLDERS = ("transitions", "checkpoints")


def save_online(run: RunFolder, place: str | Path, state: dict[str, Any]) -> None:
    """Copy a run to another folder, or leave it where it is, and write the state of a belief beside it.

    Raises:
        UserError: if the folder holds something else, or cannot be written.
    """
    path = path_of(place)
    if path.resolve() != run.path.resolve():
        if path.exists() and (not path.is_dir() or without_clutter(path.iterdir(), path)):
            raise UserError(f"{path} exists already: save to another place")
        make_folder(path)
        for folder in FOLDERS:
            shutil.copytree(run.path / folder, path / folder)
        for part in PARTS:
            if (run.path / part).is_file():
                shutil.copyfile(run.path / part, path / part)
    save_state(path / FILE, state)


def load_online(path: Path) -> dict[str, Any] | None:
    """The state that :func:`save_online` wrote, or None in the folder of a run alone.

    Raises:
        UserError: if the file is damaged.
    """
    if not (path / FILE).is_file():
        return None
    state = load_state(path / FILE)
    if not {"network", "online", "seed", "stream", "seen", "since_change", "updates"} <= set(state):
        raise UserError(f"{path / FILE} is no state of a belief: remove it to begin at the prior")
    return {**state, "online_config": _online_config(path, state["online"])}


def _online_config(path: Path, text: Any) -> dict[str, Any]:
    """The beliefs of the agent that was saved, which need not be those of its run."""
    try:
        config = parse_json(text)
    except (TypeError, ValueError):
        config = None
    if not isinstance(config, dict):
        raise UserError(f"{path / FILE} is no state of a belief: remove it to begin at the prior")
    for kind in ("belief", "update"):
        require_own_code(kind, config.get(kind), path)
    return config
