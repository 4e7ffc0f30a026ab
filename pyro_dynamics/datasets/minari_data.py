"""Minari data sets: read as logs, and written from transitions."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box

from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import refuse_not_finite
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import check_free_space, reason, unfinished
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.untrusted_folders import require_inside

HIDDEN_LOCK = ".pyro-dynamics-lock"
"""In Minari's root, which Minari does not look at: it lists the folders there, and breaks where one vanishes."""
NOT_A_COLUMN = {"id", "seed", "total_steps"}
"""Minari's own metadata of every episode."""


def minari() -> Any:
    """The package.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import minari
    except ImportError as fault:
        raise UserError(f"Minari is not installed ({fault}): pip install 'minari[hdf5]'") from None
    return minari


def read_minari(source: str) -> Log:
    """A data set by its folder, or by its id below ``MINARI_DATASETS_PATH`` (nothing is downloaded).

    An episode's metadata, and infos that stay the same through an episode, are the columns to group by.

    Raises:
        UserError: if there is none, or its observations and actions are not vectors of finite numbers.
    """
    dataset = _open(source)
    for kind, space in (("observations", dataset.observation_space), ("actions", dataset.action_space)):
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise UserError(f"{source}: its {kind} are {space}: only a Box of one axis works here")
    try:
        episodes = [episode for episode in dataset if len(episode)]
        metadata = list(dataset.storage.get_episode_metadata([episode.id for episode in episodes]))
    except Exception as fault:  # Minari raises many kinds for damaged episodes
        raise UserError(f"{source} is damaged: {fault}") from None
    if not episodes:
        raise UserError(f"{source} holds no transitions")
    lengths = [len(episode) for episode in episodes]
    sizes = dataset.observation_space.shape[0], dataset.action_space.shape[0]
    for episode in episodes:
        _refuse_other_shapes(f"{source}, episode {episode.id}", episode, *sizes)
        for name in ("observations", "actions", "rewards"):
            refuse_not_finite(f"{source}, episode {episode.id}", name, getattr(episode, name))
    columns = _columns(source, [_flat(one) for one in metadata], episodes)
    low, high = dataset.action_space.low.astype(np.float64), dataset.action_space.high.astype(np.float64)
    return Log(
        dataset.id,
        np.concatenate([episode.observations[:-1] for episode in episodes]).astype(np.float64),
        np.concatenate([episode.actions for episode in episodes]).astype(np.float64),
        np.concatenate([episode.observations[1:] for episode in episodes]).astype(np.float64),
        np.concatenate([episode.rewards for episode in episodes]).astype(np.float64),
        None,
        np.repeat(np.arange(len(episodes)), lengths),
        {name: np.repeat(values, lengths) for name, values in columns.items()},
        (low, high) if np.isfinite([low, high]).all() else None,
    )


def _open(source: str) -> Any:
    package = minari()
    folders = [folder for folder in (Path(source) / "data", Path(source)) if (folder / "metadata.json").is_file()]
    try:
        if folders:
            require_inside(folders[0])
            return package.MinariDataset(folders[0])
        return package.load_dataset(source, download=False)
    except FileNotFoundError:
        raise UserError(
            f"{source} is no .npz file, no folder of a Minari data set, and no Minari data set on this machine: "
            f"if it is a public one, first run minari download {source}"
        ) from None
    except UserError:
        raise
    except Exception as fault:  # Minari raises many kinds for a damaged data set
        raise UserError(f"{source} is not a Minari data set that can be read: {fault}") from None


def _refuse_other_shapes(where: str, episode: Any, entries: int, actions: int) -> None:
    """Raises UserError unless the arrays of an episode are numbers of the shapes of its spaces."""
    steps = len(episode)
    wanted = {"observations": (steps + 1, entries), "actions": (steps, actions), "rewards": (steps,)}
    for name, shape in wanted.items():
        array = getattr(episode, name)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.shape != shape:
            found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise UserError(f"{where}: {name} are {found}, and should be numbers {list(shape)}")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested entries as one level, with names such as options/gravity."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}/")
        elif prefix or name not in NOT_A_COLUMN:
            found[prefix + name] = value
    return found


def _columns(source: str, metadata: list[dict[str, Any]], episodes: Sequence[Any]) -> dict[str, np.ndarray]:
    """Everything with one value in every episode: of its metadata, or of its infos."""
    columns: dict[str, np.ndarray] = {}
    infos = [_flat(episode.infos or {}) for episode in episodes]
    constant = [{name: _only(value) for name, value in one.items()} for one in infos]
    for parts in (constant, metadata):
        shared = set(parts[0]).intersection(*parts[1:])
        for name in sorted(shared):
            values = [_text_or_number(part[name]) for part in parts]
            if all(value is not None for value in values):
                columns[name] = np.array(values)
    return columns


def _only(values: Any) -> Any:
    """The value of an info that stays the same through an episode, or None. That of the reset may be missing or 0."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array):
        return None
    later = array[1:] if len(array) > 1 else array
    return later[0] if (later == later[0]).all() else None


def _text_or_number(value: Any) -> Any:
    """A value that can name a group, or None."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    array = np.asarray(value)
    return array.item() if array.ndim == 0 and array.dtype.kind in "iufbU" else None


def write_minari(
    target: str, episodes: Sequence[dict[str, Any]], observations: Box, actions: Box, spec: EnvSpec | None, words: str
) -> Path:
    """A new data set; returns its folder.

    Args:
        target: its id, or a folder (with a name such as pendulum-v0) that begins with a dot, a slash or a tilde.
        episodes: each with ``observations [T + 1, S]``, ``actions [T, A]``, ``rewards [T]``, ``terminations [T]``,
            ``truncations [T]``, ``infos`` (arrays ``[T + 1]``) and ``metadata`` (plain values).
        observations: their space.
        actions: their space.
        spec: of the environment, from which Minari can make it again; None where there is none.
        words: describes the data set.

    Raises:
        UserError: if it exists already, has a name that Minari does not accept, or cannot be written.
    """
    package = minari()
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.namespace import create_namespace, list_local_namespaces
    from minari.storage import get_dataset_path

    buffers = [
        EpisodeBuffer(**{name: value for name, value in episode.items() if name != "metadata"}) for episode in episodes
    ]
    with _root_of(target) as name, warnings.catch_warnings(), ExitStack() as stack:
        try:
            namespace, *_ = parse_dataset_id(name)
        except (ValueError, TypeError):  # the latter for a name without a version
            raise UserError(f"Minari requires names such as pendulum-v0 or mine/pendulum-v0, not {name!r}") from None
        warnings.simplefilter("ignore")  # about a missing author and link
        place = get_dataset_path(name)
        beside = unfinished(place)
        # One at a time: whoever comes later finds what is there, and says so.
        stack.enter_context(lock_folder(place.parents[name.count("/")], wait=True, name=HIDDEN_LOCK))
        try:
            if place.exists():
                raise FileExistsError("it already exists")
            beside.mkdir(parents=True)
            check_free_space(beside, most_bytes(episodes))
            with _root(beside):
                dataset = package.create_dataset_from_buffers(
                    name,
                    buffers,
                    env=spec,
                    observation_space=observations,
                    action_space=actions,
                    algorithm_name="pyro-dynamics",
                    description=words,
                )
            dataset.storage.update_episode_metadata([episode["metadata"] for episode in episodes])
            if namespace is not None and namespace not in list_local_namespaces():
                create_namespace(namespace)
            Path(dataset.storage.data_path).parent.replace(place)
        except (ValueError, OSError) as fault:
            why = reason(fault) if isinstance(fault, OSError) else fault
            raise UserError(f"cannot write the Minari data set {target}: {why}") from None
        finally:
            rmtree(beside, ignore_errors=True)
        return place


def most_bytes(episodes: Sequence[dict[str, Any]]) -> int:
    """More than a data set takes: its numbers, and what HDF5 adds for every array and episode."""
    arrays = [np.asarray(array) for episode in episodes for array in _flat(episode).values()]
    return 2**18 + 2**13 * len(episodes) + sum(5 * array.nbytes // 4 + 2**11 for array in arrays)


@contextmanager
def _root_of(target: str) -> Iterator[str]:
    """The id for Minari; for a folder it is the folder's name, and Minari's root is the parent folder."""
    if not target.startswith((".", "/", "~")):
        yield target
        return
    folder = Path(target).expanduser().resolve()
    with _root(folder.parent):
        yield folder.name


@contextmanager
def _root(folder: Path) -> Iterator[None]:
    """Minari's root is there."""
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before
