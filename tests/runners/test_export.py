"""What we export other tools load, and what Minari wrote we fit."""

import csv
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
import torch
from commands import files_of, refused
from gymnasium.spaces import Box
from logged_pendulums import SMALL, pendulum_log, saved
from minari.data_collector import EpisodeBuffer

from pyro_dynamics.datasets.minari_data import HIDDEN_LOCK, most_bytes, write_minari
from pyro_dynamics.environments import find_family
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

TINY = [
    *("--rounds", "1", "--steps", "25", "--episodes", "2", "--offline.epochs", "2", "--offline.min-steps", "1"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def same_episodes(dataset: minari.MinariDataset, rounds: list[Transitions], contexts: tuple[Any, ...]) -> None:
    """Every number of ours is in the data set, and in its place."""
    ours = [data.select(rows) for data in rounds for rows in data.episodes()]
    assert dataset.total_episodes == len(ours)
    assert dataset.total_steps == sum(map(len, rounds))
    metadata = list(dataset.storage.get_episode_metadata(range(len(ours))))
    for data, episode, entry in zip(ours, dataset, metadata, strict=True):
        assert np.array_equal(episode.observations[:-1], data.state.numpy())
        assert np.array_equal(episode.observations[1:], data.next_state.numpy())
        assert np.array_equal(episode.actions, data.action.numpy())
        assert np.array_equal(episode.rewards, data.reward.numpy())
        assert not episode.terminations.any()
        assert episode.truncations.tolist() == [False] * (len(data) - 1) + [True]
        k = int(data.environment[0])
        assert (entry["environment"], entry["gravity"]) == (k, contexts[k])
        assert (episode.infos["gravity"] == contexts[k]).all()
        assert all(observation in dataset.observation_space for observation in episode.observations)


def test_minari_loads_what_we_export(run: Path, datasets: Path) -> None:
    assert main(["export", str(run), "--minari", "pendulum/gravity-v0"]) == 0
    assert (datasets / "pendulum" / "gravity-v0" / "data").is_dir()
    dataset = minari.load_dataset("pendulum/gravity-v0")
    same_episodes(dataset, RunFolder.open(run).transitions(), find_family("pendulum-gravity").train)
    env = dataset.recover_environment()
    assert env.unwrapped.context == 2.0


def test_a_folder_of_ones_own(run: Path, tmp_path: Path, datasets: Path) -> None:
    assert main(["export", str(run), "--minari", str(tmp_path / "mine" / "gravity-v1")]) == 0
    dataset = minari.MinariDataset(tmp_path / "mine" / "gravity-v1" / "data")
    same_episodes(dataset, RunFolder.open(run).transitions(), find_family("pendulum-gravity").train)
    assert not (datasets / "gravity-v1").exists()


def test_the_same_goes_for_a_run_without_a_simulator(tmp_path: Path) -> None:
    log = saved(tmp_path / "log.npz", pendulum_log((2.0, 10.0), episodes=3, steps=15))
    fitted = tmp_path / "fitted"
    assert main(["fit", str(log), *SMALL, "--offline.min-steps", "1", "--group", "gravity", "--out", str(fitted)]) == 0
    assert main(["export", str(fitted), "--minari", "logged-v0"]) == 0
    same_episodes(minari.load_dataset("logged-v0"), RunFolder.open(fitted).transitions(), (2.0, 10.0))


def collect(name: str, env: gymnasium.Env, episodes: int) -> minari.MinariDataset:
    """A data set of random actions, written by Minari itself; its DataCollector would need jax."""
    env.action_space.seed(0)
    buffers = [random_episode(env, seed) for seed in range(episodes)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an author that nobody gave
        return minari.create_dataset_from_buffers(name, buffers, env=env)


def random_episode(env: gymnasium.Env, seed: int) -> EpisodeBuffer:
    observation, info = env.reset(seed=seed)
    observations, all_infos = [observation], [info]
    steps: list[Any] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        action = env.action_space.sample()
        observation, *outcome, info = env.step(action)
        observations.append(observation)
        all_infos.append(info)
        steps.append((action, *outcome))
    actions, rewards, terminations, truncations = map(list, zip(*steps, strict=True))
    infos = {key: [one[key] for one in all_infos] for key in info}
    return EpisodeBuffer(None, seed, None, observations, actions, rewards, terminations, truncations, infos)


def test_a_data_set_made_by_minari_is_fitted(tmp_path: Path) -> None:
    made = [
        collect(f"gravity{g}-v0", gymnasium.make("Pendulum-v1", g=g, max_episode_steps=40), episodes=4) for g in (2, 10)
    ]
    out = tmp_path / "run"
    assert main(["fit", "gravity2-v0", "gravity10-v0", *SMALL, "--out", str(out)]) == 0
    rows = RunFolder.open(out).metrics()
    assert [row["context"] for row in rows] == ["gravity10-v0", "gravity2-v0"]
    for row in rows:
        assert row["log_likelihood"] > row["log_likelihood_wrong_latent"] + 1
    ours = torch.cat([data.state for data in RunFolder.open(out).transitions()]).numpy()
    theirs = np.concatenate([episode.observations[:-1] for dataset in made for episode in dataset])
    assert np.array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])
    assert json.loads((out / "data.json").read_text())["high"] == [2.0]  # the space's bounds, not the extremes seen


def test_episodes_are_grouped_by_metadata_or_by_an_info(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--minari", "ours-v0"]) == 0
    small = [*SMALL, "--offline.min-steps", "1"]
    assert main(["fit", "ours-v0", *small, "--group", "gravity", "--out", str(tmp_path / "metadata")]) == 0
    assert [row["context"] for row in RunFolder.open(tmp_path / "metadata").metrics()] == [2.0, 4.0, 6.0, 8.0, 10.0]

    env = find_family("pendulum-gravity").make(7.0, 20)  # it has the true context in its infos
    dataset = collect("infos-v0", env, episodes=2)
    folder = str(dataset.storage.data_path)
    generalist = [*small, "--agent", "generalist", "--out", str(tmp_path / "infos")]
    assert main(["fit", folder, *generalist, "--group", "context"]) == 0
    assert [row["context"] for row in RunFolder.open(tmp_path / "infos").metrics()] == [7.0]


def test_two_files_of_one_name_are_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = str(tmp_path / "same")
    assert "each needs a file of its own" in refused(["export", str(run), "--npz", same, "--csv", same], capsys)
    assert not (tmp_path / "same").exists()


def test_npz_comes_back_and_csv_holds_the_same(run: Path, tmp_path: Path) -> None:
    npz, table = tmp_path / "all.npz", tmp_path / "all.csv"
    assert main(["export", str(run), "--npz", str(npz), "--csv", str(table)]) == 0
    data = Transitions.concatenate(RunFolder.open(run).transitions())
    with np.load(npz, allow_pickle=False) as arrays, table.open() as file:
        rows = list(csv.DictReader(file))
        assert len(rows) == len(arrays["state"]) == len(data)
        assert np.array_equal(arrays["next_state"], data.next_state.numpy())
        for name, column in (("state_2", arrays["state"][:, 2]), ("reward", arrays["reward"])):
            assert np.array_equal(np.array([row[name] for row in rows], dtype=np.float32), column)
        assert [float(row["gravity"]) for row in rows] == arrays["gravity"].tolist()
    again = tmp_path / "again"
    assert main(["fit", str(npz), *SMALL, "--offline.min-steps", "1", "--group", "gravity", "--out", str(again)]) == 0
    trained, held_out = RunFolder.open(again).transitions()
    assert len(trained) + len(held_out) == len(data)


@pytest.mark.parametrize(("episodes", "steps", "infos"), [(1, 1, 1), (40, 1, 5), (2, 2000, 2)])
def test_room_is_asked_for_that_is_enough_and_not_far_too_much(
    episodes: int, steps: int, infos: int, tmp_path: Path
) -> None:
    """HDF5 crashes where there is less space than it needs, so free space is checked first."""
    named = {f"parameter_{i}": 1.0 for i in range(infos)}
    one = {
        "observations": np.zeros((steps + 1, 3), np.float32),
        "actions": np.zeros((steps, 1), np.float32),
        "rewards": np.zeros(steps),
        "terminations": np.zeros(steps, bool),
        "truncations": np.zeros(steps, bool),
        "infos": {name: [value] * (steps + 1) for name, value in named.items()},
        "metadata": {**named, "environment": 0, "round": 1},
    }
    boxes = Box(-1, 1, (3,), np.float32), Box(-1, 1, (1,), np.float32)
    place = write_minari(str(tmp_path / "data-v0"), [one] * episodes, *boxes, None, "zeros")
    taken = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    assert taken < most_bytes([one] * episodes) < 2 * taken + 2**19
    assert set(tmp_path.iterdir()) == {place, tmp_path / HIDDEN_LOCK}  # and nothing that was begun


def test_without_minari_a_line_says_what_to_install(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    table = tmp_path / "table.csv"
    message = refused(["export", str(run), "--minari", "never-v0", "--csv", str(table)], capsys)
    assert "pip install 'minari[hdf5]'" in message
    assert not table.exists()
    assert "pip install" in refused(["fit", "never-v0"], capsys)


def test_mistakes_are_reported_in_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--minari" in refused(["export", str(run)], capsys)
    assert "not a run folder" in refused(["export", str(tmp_path), "--csv", str(tmp_path / "t.csv")], capsys)
    assert "pendulum-v0" in refused(["export", str(run), "--minari", "pendulum"], capsys)
    assert main(["export", str(run), "--minari", "twice-v0"]) == 0
    assert "already exists" in refused(["export", str(run), "--minari", "twice-v0"], capsys)
    assert "minari download absent-v0" in refused(["fit", "absent-v0"], capsys)
    collect("cart-v0", gymnasium.make("CartPole-v1", max_episode_steps=5), episodes=1)
    assert "Discrete(2)" in refused(["fit", "cart-v0"], capsys)


def test_damaged_data_sets_are_reported_in_one_line(datasets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    collect("gravity-v0", gymnasium.make("Pendulum-v1", max_episode_steps=5), episodes=1)
    file = datasets / "gravity-v0" / "data" / "main_data.hdf5"
    with h5py.File(file, "r+") as stored:
        rewards = stored["episode_0"].pop("rewards")[:]
        stored["episode_0"]["rewards"] = rewards[:, None]
    assert "rewards are float64 [5, 1], and should be numbers [5]" in refused(["fit", "gravity-v0"], capsys)
    with h5py.File(file, "r+") as stored:
        del stored["episode_0"]["rewards"]
    assert "gravity-v0 is damaged" in refused(["fit", "gravity-v0"], capsys)
    with h5py.File(file, "r+") as stored:
        del stored["episode_0"]
    metadata = file.with_name("metadata.json")
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"total_episodes": 0, "total_steps": 0}))
    assert "gravity-v0 holds no transitions" in refused(["fit", "gravity-v0"], capsys)


@pytest.mark.parametrize("part", ["config.json", "metrics.jsonl", "transitions/round-001.npz", "checkpoints/mine.npz"])
def test_no_part_of_a_run_is_written_over(run: Path, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(run)
    for flags in (["export", str(run), "--npz"], ["export", str(run), "--csv"], ["evaluate", str(run), "--out"]):
        assert "is a part of the run" in refused([*flags, str(run / part)], capsys)
    assert files_of(run) == before
