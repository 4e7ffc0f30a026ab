"""The folder of a run: configuration, metrics, transitions and checkpoints."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pyro_dynamics.data_files import read_json, read_text
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.checkpoint_files import drop_state, load_state, require_finite, save_state
from pyro_dynamics.io.clutter import is_clutter
from pyro_dynamics.io.files import make_folder, write_json, write_json_lines, write_whole
from pyro_dynamics.io.lock import LOCK
from pyro_dynamics.io.schema import parse_rows, require_metrics
from pyro_dynamics.io.shared_zip import is_zip, open_zip
from pyro_dynamics.io.untrusted_folders import require_inside, require_own_code, stamped, unstamped
from pyro_dynamics.transitions import Transitions

DIGESTS = "transitions"
"""Under this name a checkpoint has the SHA-256 of the transitions of each round up to its own."""
METRICS = "metrics"
"""Under this name it has that of the metrics of these rounds."""


def is_content(path: Path) -> bool:
    """Whether this is more than what is left of a run that was killed before it had a configuration."""
    begun = path.name.startswith("config.json.") and path.suffix == ".part"
    return not path.is_dir() and not begun and not is_clutter(path) and path.name != LOCK


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """The rows of a ``metrics.jsonl``.

    Raises:
        UserError: if it holds anything else.
    """
    try:
        rows = parse_rows(read_text(file))
        require_metrics(rows)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} does not hold metrics: {fault}") from None
    return rows


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``transitions/round-000.npz`` ... and ``checkpoints/round-000.pt`` ...

    A round counts once its checkpoint, which is written last, is there; what a killed run left of a later round is
    ignored and written again. A checkpoint of more than 15 MiB has further files, ``round-000.pt.1`` and so on. Each
    has the SHA-256 of every round's transitions and metrics up to its own: what belongs to another run is found out.

    Args:
        path: the folder.
        config: what ``config.json`` holds.
    """

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config

    @staticmethod
    def require_free(path: Path) -> None:
        """Refuse a place that holds something already.

        Raises:
            UserError: if it does.
        """
        if path.exists() and (not path.is_dir() or any(map(is_content, path.rglob("*")))):
            raise UserError(
                f"{path} exists already: choose another --out, or resume a training by train --resume {path}"
            )

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """A new run; the folder may hold a lock already (:func:`~pyro_dynamics.io.lock.lock_folder`).

        Raises:
            UserError: if something is there already, or the folder cannot be made.
        """
        cls.require_free(path)
        for part in ("transitions", "checkpoints"):
            make_folder(path / part)
        write_json(path / "config.json", stamped(config))
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A run that was there before, in a folder or shared as a zip, which is unpacked beside itself.

        Raises:
            UserError: if the folder does not hold one, if a newer version made it, if a link in it leads out of it, or
                if it names a family, guide, planner, belief or update whose code came with it.
        """
        path = open_zip(path) if is_zip(path) else path
        try:
            config = read_json(path / "config.json")
        except OSError:
            why = "it has no readable config.json" if path.exists() else "it does not exist"
            raise UserError(f"{path} is not a run folder: {why}; make one with train") from None
        except ValueError as fault:
            raise UserError(f"{path / 'config.json'} is not JSON: {fault}") from None
        if not isinstance(config, dict):
            raise UserError(f"{path / 'config.json'} does not hold a configuration")
        config = unstamped(config, path / "config.json")
        require_inside(path)
        online = config.get("online")
        for named in (config, online if isinstance(online, dict) else {}):
            for kind in ("family", "guide", "belief", "update", "planner"):
                require_own_code(kind, named.get(kind), path)
        return cls(path, config)

    @property
    def last_round(self) -> int | None:
        """The newest whole round, or None before the first."""
        return max(self._rounds(), default=None)

    def _rounds(self) -> list[int]:
        """Rounds with a checkpoint."""
        names = [file.stem.removeprefix("round-") for file in self.path.glob("checkpoints/round-*.pt")]
        numbers = [int(name) for name in names if name.isdecimal()]
        return sorted(m for m in numbers if self._checkpoint(m).is_file())

    def require_checkpoint(self) -> None:
        """Refuse to continue where a later round's transitions are than a run without its checkpoint can have left.

        Raises:
            UserError: if the checkpoint of the newest round is missing.
        """
        names = [file.stem.removeprefix("round-") for file in self.path.glob("transitions/round-*.npz")]
        rounds = [int(name) for name in names if name.isdecimal()]
        there = -1 if self.last_round is None else self.last_round
        if max(rounds, default=-1) > there + 1:
            raise UserError(
                f"{self.path} has transitions up to round {max(rounds)}, and "
                f"{'no checkpoint' if there < 0 else f'checkpoints up to round {there} alone'}: bring the newest one "
                "back, or delete what is later to train again from there"
            )

    def save_config(self, config: dict[str, Any]) -> None:
        """Replace the configuration (a resumed run may have more rounds)."""
        self.config = config
        write_json(self.path / "config.json", stamped(config))

    def save_round(
        self, m: int, data: Transitions, rows: Sequence[dict[str, Any]], state: dict[str, Any], keep: Sequence[int]
    ) -> None:
        """Write round m, its checkpoint last; older checkpoints are dropped unless in ``keep``."""
        write_whole(self._transitions(m), lambda file: np.savez(file, allow_pickle=False, **data.arrays()))
        earlier = [row for row in self.metrics() if row["round"] < m]
        write_json_lines(self.path / "metrics.jsonl", [*earlier, *rows])
        digests = {DIGESTS: [self._digest(n) for n in range(m + 1)], METRICS: self._metrics_digest(m)}
        save_state(self._checkpoint(m), {**state, **digests})
        for old in range(m):
            if old not in keep:
                drop_state(self._checkpoint(old))

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of ``metrics.jsonl``.

        Raises:
            UserError: if it holds anything else.
        """
        return self._metrics(-1 if self.last_round is None else self.last_round)

    def _metrics(self, last: int) -> list[dict[str, Any]]:
        """Those of the rounds up to ``last``."""
        file = self.path / "metrics.jsonl"
        rows = read_metrics(file) if file.exists() else []
        return [row for row in rows if row["round"] <= last]

    def transitions(self) -> list[Transitions]:
        """The transitions of each whole round."""
        last = self.last_round
        return [] if last is None else [Transitions.load(self._transitions(m)) for m in range(last + 1)]

    def require_sizes(self, environments: int, state_dim: int, action_dim: int) -> None:
        """Refuse a run whose transitions are of other environments than its configuration says.

        A run may have been copied without its transitions, which acting does not need.

        Args:
            environments: K.
            state_dim: S.
            action_dim: A.

        Raises:
            UserError: naming the round and what does not fit.
        """
        for m in range(-1 if self.last_round is None else self.last_round, -1, -1):
            if self._transitions(m).is_file():
                where = f"{self.path}, transitions of round {m}"
                Transitions.load(self._transitions(m)).require_within(environments, state_dim, action_dim, where)

    def checkpoint(self, m: int | None = None) -> dict[str, Any]:
        """The state saved with round m, the newest by default.

        Raises:
            UserError: if there is none, or the file is not a checkpoint or holds numbers that are not finite, or a part
                of it is missing or of another, or the transitions are not those that it was saved with.
        """
        m = self.last_round if m is None else m
        if m is None:
            raise UserError(f"{self.path} holds no checkpoint yet: resume it by train --resume {self.path}")
        file = self._checkpoint(m)
        if not file.exists():
            raise UserError(f"{self.path} has no checkpoint of round {m}: it has {self._rounds()}")
        state = load_state(file)
        require_finite(file, state)
        self._require_own_transitions(file, m, state.get(DIGESTS))
        if state.get(METRICS, found := self._metrics_digest(m)) != found:
            metrics = self.path / "metrics.jsonl"
            what = "it was changed, or is of another run" if metrics.exists() else "it is missing"
            raise UserError(
                f"{metrics} is not what {file.name} was saved with: {what}; bring back the run's own, or train again"
            )
        return state

    def _require_own_transitions(self, file: Path, m: int, digests: object) -> None:
        """Refuse transitions that another run put here, or a checkpoint of another; older runs hold no digests."""
        for n, digest in zip(range(m + 1), digests if isinstance(digests, list) else [], strict=False):
            found = self._digest(n)
            if None not in (found, digest) and found != digest:
                raise UserError(
                    f"{self._transitions(n)} is not what {file.name} was saved with: one of them was replaced, or is "
                    "of another run; bring back the run's own, or train again"
                )

    def _digest(self, m: int) -> str | None:
        """Of a round's transitions as a file; None where it is not there."""
        file = self._transitions(m)
        return sha256(file.read_bytes()).hexdigest() if file.is_file() else None

    def _metrics_digest(self, m: int) -> str:
        """Of the metrics of the rounds up to m."""
        return sha256(json.dumps(self._metrics(m), sort_keys=True).encode()).hexdigest()

    def _transitions(self, m: int) -> Path:
        return self.path / "transitions" / f"round-{m:03d}.npz"

    def _checkpoint(self, m: int) -> Path:
        return self.path / "checkpoints" / f"round-{m:03d}.pt"
