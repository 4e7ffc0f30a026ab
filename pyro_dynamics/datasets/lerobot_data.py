"""Data sets in the layout of LeRobot, read by pandas and pyarrow alone.

The layout is that of LeRobotDataset v2.0 and v2.1, and of v3.0 (lerobot 0.4 and later), as
https://huggingface.co/docs/lerobot/lerobot-dataset-v3 describes it: ``meta/info.json`` names the version and the
features, and ``data/chunk-*/*.parquet`` has a row for each frame, with ``observation.state``, ``action``,
``episode_index`` and ``frame_index``. What is known of whole episodes is in ``meta/episodes.jsonl`` and
``meta/tasks.jsonl`` (v2), or in ``meta/episodes/chunk-*/*.parquet`` and ``meta/tasks.parquet`` (v3). Videos are not
read.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas

from pyro_dynamics.data_files import Count, parse_json, read_json, read_text, structure
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.table_data import log_of_table, read_parquet
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.clutter import without_clutter

VERSIONS = ("v2.0", "v2.1", "v3.0")
IMAGES = ("image", "video")
"""Kinds of features that are not read."""


class Feature(TypedDict):
    """What is read of a feature of ``meta/info.json``."""

    dtype: str


class Info(TypedDict):
    """What is read of ``meta/info.json``."""

    codebase_version: str
    total_episodes: Count
    total_frames: Count
    features: dict[str, Feature]


def is_lerobot(folder: Path) -> bool:
    """Whether a folder has the layout."""
    return (folder / "meta" / "info.json").is_file()


def read_lerobot(folder: Path, group: str | None, names: ColumnNames) -> Log:
    """All episodes of a data set in a folder; nothing is downloaded.

    A frame's next state is the state of the next frame of its episode. It can be grouped by any column of the frames
    (such as ``task_index`` or ``episode_index``), by ``task`` (its text), or by a column of the episodes' metadata.

    Args:
        folder: that holds ``meta`` and ``data``.
        group: the column that identifies environments.
        names: what the columns are called; by default ``observation.state``, ``action`` and, if it is there,
            ``next.reward``.

    Raises:
        UserError: if it is of another version, incomplete or damaged, or has no vectors of finite numbers there.
    """
    info = _info(folder)
    frames = _frames(folder, info)
    frames = frames.merge(_episodes(folder, info), on="episode_index", how="left", suffixes=("", " of the episode"))
    if "task_index" in frames:
        frames["task"] = frames["task_index"].map(_tasks(folder, info))
    frames = frames.assign(episode=frames["episode_index"], step=frames["frame_index"])
    own = {"state": "observation.state", "action": "action", "reward": "next.reward"}
    own = {name: column for name, column in own.items() if getattr(names, name) is None and column in frames}
    return log_of_table(str(folder), frames, group, replace(names, **own))


def _info(folder: Path) -> Info:
    file = folder / "meta" / "info.json"
    try:
        info: Info = structure(read_json(file), Info)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} is not that of a LeRobot data set: {first_line(fault)}") from None
    if info["codebase_version"] not in VERSIONS:
        raise UserError(
            f"{folder} is a LeRobot data set {info['codebase_version'][:20]}, and this reads {', '.join(VERSIONS)}: "
            "convert it with the lerobot package"
        )
    return info


def _frames(folder: Path, info: Info) -> pandas.DataFrame:
    """A row for each frame, of everything but images."""
    columns = [name for name, feature in info["features"].items() if feature["dtype"] not in IMAGES]
    missing = {"episode_index", "frame_index"} - set(columns)
    if missing:
        raise UserError(f"{folder}: meta/info.json names no feature {', '.join(sorted(missing))}")
    files = without_clutter((folder / "data").glob("*/*.parquet"), folder)
    if not files:
        raise UserError(f"{folder} has no data/*/*.parquet: download the data set whole, without its videos at least")
    parts = [read_parquet(file, columns) for file in files]
    absent = [name for name in columns if any(name not in part for part in parts)]
    if absent:
        raise UserError(f"{folder}: meta/info.json names the feature {absent[0]!r}, and data has no such column")
    frames = pandas.concat(parts, ignore_index=True)
    found = len(frames), frames["episode_index"].nunique()
    if found != (info["total_frames"], info["total_episodes"]):
        raise UserError(
            f"{folder} has {found[0]} frames of {found[1]} episodes, and meta/info.json says {info['total_frames']} of "
            f"{info['total_episodes']}: download the data set whole"
        )
    return frames


def _episodes(folder: Path, info: Info) -> pandas.DataFrame:
    """A row for each episode: what is a number or text of it."""
    if info["codebase_version"] >= "v3":
        files = without_clutter((folder / "meta" / "episodes").glob("*/*.parquet"), folder)
        found = pandas.concat([read_parquet(file) for file in files], ignore_index=True) if files else None
    else:
        found = _json_lines(folder / "meta" / "episodes.jsonl")
    if found is None or "episode_index" not in found:
        raise UserError(f"{folder} has no metadata of its episodes in meta/episodes: download the data set whole")
    if found["episode_index"].duplicated().any():
        raise UserError(f"{folder}: meta/episodes names an episode more than once")
    internal = ("stats/", "data/", "videos/", "meta/", "dataset_")
    kept = [name for name in found if not str(name).startswith(internal) and not _holds_lists(found[name])]
    return found[kept]


def _holds_lists(column: pandas.Series) -> bool:
    return any(isinstance(value, list | dict | np.ndarray) for value in column)


def _tasks(folder: Path, info: Info) -> dict[Any, str]:
    """The text of each task; in the Parquet file of v3 it is the index, whose name varies."""
    if info["codebase_version"] >= "v3":
        file = folder / "meta" / "tasks.parquet"
        tasks = read_parquet(file) if file.is_file() else None
    else:
        tasks = _json_lines(folder / "meta" / "tasks.jsonl")
    if tasks is None or "task_index" not in tasks:
        return {}
    texts = [name for name in tasks if name != "task_index"]
    return dict(zip(tasks["task_index"], tasks[texts[0]].astype(str), strict=True)) if texts else {}


def _json_lines(file: Path) -> pandas.DataFrame | None:
    if not file.is_file():
        return None
    try:
        return pandas.DataFrame([parse_json(line) for line in read_text(file).splitlines() if line.strip()])
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} is damaged: {first_line(fault)}") from None
