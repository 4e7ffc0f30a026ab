"""A small data set in the layout of LeRobot, as its writers leave it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas

MASSES = (1.0, 2.0)
EPISODES, FRAMES = 6, 15


def frames() -> pandas.DataFrame:
    """A mass under a random force: a row for each frame, grouped by task and by mass in turn."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for episode in range(EPISODES):
        state = rng.normal(size=2)
        for frame in range(FRAMES):
            force = rng.uniform(-1, 1, 1)
            rows.append(
                {
                    "observation.state": state.astype(np.float32),
                    "action": force.astype(np.float32),
                    "timestamp": np.float32(frame / 10),
                    "frame_index": frame,
                    "episode_index": episode,
                    "index": len(rows),
                    "task_index": episode % 2,
                    "next.reward": np.float32(-abs(state[0])),
                }
            )
            state = state + 0.1 * np.array([state[1], force[0] / MASSES[episode % 2]])
    return pandas.DataFrame(rows)


def write_lerobot(folder: Path, version: str) -> Path:
    """The frames of :func:`frames`: in v3.0 three episodes a file, in v2.1 one."""
    data, per_file = frames(), 3 if version == "v3.0" else 1
    own = {"observation.state": [2], "action": [1]}
    features: dict[str, Any] = {
        name: {"dtype": "float32" if name in own else str(data[name].dtype), "shape": own.get(name, [1]), "names": None}
        for name in data
    }
    features["observation.images.top"] = {"dtype": "video", "shape": [8, 8, 3], "names": None}
    (folder / "meta").mkdir(parents=True)
    info = {
        "codebase_version": version,
        "robot_type": "mass",
        "fps": 10,
        "total_episodes": EPISODES,
        "total_frames": len(data),
        "total_tasks": 2,
        "chunks_size": 1000,
        "splits": {"train": f"0:{EPISODES}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "features": features,
    }
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    chunk = folder / "data" / "chunk-000"
    chunk.mkdir(parents=True)
    for number, first in enumerate(range(0, EPISODES, per_file)):
        name = f"file-{number:03d}" if version == "v3.0" else f"episode_{number:06d}"
        data[data["episode_index"].between(first, first + per_file - 1)].to_parquet(chunk / f"{name}.parquet")
    tasks = ["push the light mass", "push the heavy mass"]
    episodes = [
        {"episode_index": k, "tasks": [tasks[k % 2]], "length": FRAMES, "mass": MASSES[k % 2]} for k in range(EPISODES)
    ]
    if version == "v3.0":
        place = folder / "meta" / "episodes" / "chunk-000"
        place.mkdir(parents=True)
        extra = {"data/chunk_index": 0, "dataset_from_index": 0, "stats/action/mean": [0.0]}
        pandas.DataFrame([one | extra for one in episodes]).to_parquet(place / "file-000.parquet")
        pandas.DataFrame({"task_index": [0, 1]}, index=tasks).to_parquet(folder / "meta" / "tasks.parquet")
    else:
        texts = [{"task_index": i, "task": task} for i, task in enumerate(tasks)]
        for name, lines in (("episodes", episodes), ("tasks", texts)):
            (folder / "meta" / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
