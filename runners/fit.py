"""pyro-dynamics fit: learn a dynamics model from logged transitions alone, without a simulator."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import tyro
from tqdm import tqdm

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.datasets.fitting import fit_metrics, hold_out
from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.datasets.logged_data import LoggedData
from pyro_dynamics.datasets.logged_family import NAME, DataDescription, LoggedFamily
from pyro_dynamics.datasets.logged_rewards import other_rewards
from pyro_dynamics.datasets.logged_start import outside
from pyro_dynamics.environments import find_family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, FullRankConfig
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.io.files import write_bytes, write_json_lines
from pyro_dynamics.io.lock import lock_folder
from pyro_dynamics.io.reuse import require_same_settings
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.likely_angles import likely_angles
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.processor import set_threads
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.common.configuration import (
    CHANGEPOINT_KALMAN,
    POLISH,
    OnlineConfig,
    RunConfig,
    from_json,
    online_for,
    preset_config,
    require_pair,
    require_sizes,
    to_json,
    with_choices,
)
from pyro_dynamics.runners.common.factory import action_space, build_group
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.seeding import derive_generator
from pyro_dynamics.tasks import Task
from pyro_dynamics.tasks.spaces import decide
from pyro_dynamics.transitions import Transitions
from pyro_dynamics.unusual_numbers import outliers


@dataclass(frozen=True)
class FitConfig:
    """The settings that determine the numbers of a fit, as in `train`."""

    agent: Literal["latent", "generalist", "specialist"] = "latent"
    """latent: one model, a latent for each environment; generalist: one model, none; specialist: a model each."""
    guide: Annotated[str, tyro.conf.arg(metavar=GUIDES.choices)] = "full-rank"
    """Family of the posterior over latents."""
    seed: int = 0
    """Names every random stream."""
    latent_dim: int = 2
    """Size d of each environment's latent; only the latent agent has one."""
    ensemble: EnsembleConfig = field(
        default_factory=lambda: EnsembleConfig(members=3, hidden=(64, 64), weight_decay=(1e-5, 1e-5, 1e-5))
    )
    guide_config: Annotated[object, tyro.conf.arg(name="guide")] = field(default_factory=FullRankConfig)
    calibrate: bool = True
    """Fit a factor of the predicted standard deviation of each target to the episodes that are held out."""
    offline: OfflineConfig = field(
        default_factory=lambda: OfflineConfig(5e-3, 5e-3, batch_size=64, min_steps=4000, lr_decay=True, polish=POLISH)
    )
    online: Annotated[OnlineConfig, tyro.conf.arg(name="")] = CHANGEPOINT_KALMAN


@dataclass(frozen=True)
class FitFlags:
    """Learn a dynamics model, with a latent for each environment, from logged transitions alone.

    DATA are tables (.csv, .tsv, .csv.gz, .parquet) with a row for each transition and the columns state_0, state_1,
    ..., action_0, ..., next_state_0, ...; optionally reward, step (within the episode), episode, and any column to
    group by. Columns of other names are given by flags. Without next states these come from the next row of the same
    episode. Or .npz and .hdf5 files with the arrays state [N, S], action [N, A] and so on, or observations, actions and
    so on as D4RL calls them; or data sets of LeRobot, by folder, or of Minari, by id or folder. Part of each
    environment's episodes is held out. The folder is that of a run: `diagnose` checks it on the held-out part, `adapt
    DIR --replay DATA` updates a belief along a logged stream, and `train FAMILY --start-from DIR` begins with its data.
    """

    data: tyro.conf.Positional[tuple[str, ...]]
    """Files and data sets; several without a column to group by are an environment each."""
    run: Annotated[FitConfig, tyro.conf.arg(name="")] = field(default_factory=FitConfig)
    group: str | None = None
    """Column whose values identify the environments; by default `environment` if it exists. Floats are quantities,
    which a probe decodes from the latents (several columns are written mass,damping); integers and text are names.
    Of a Minari data set: an entry of the episodes' metadata, or an info that stays the same through an episode."""
    columns: Annotated[ColumnNames, tyro.conf.arg(name="")] = field(default_factory=ColumnNames)
    unit: str = ""
    """Unit of that column, for axes and tables (kg,m of two)."""
    hold_out: float = 0.2
    """Share of each environment's transitions that is held out, in whole episodes; of a single one, its last steps."""
    family: str | None = None
    """A registered family of the same environment: its features, targets and reward, and its simulator for commands
    that act. Without, the observation is the state, and its change the target."""
    angles: tuple[int, ...] = ()
    """Entries of the state that are angles, of radians or degrees in a range of one turn (0 2 for state_0 and state_2):
    the network gets cosine and sine, and predicts the shortest turn."""
    out: Path | None = None
    """Folder of the run; by default runs/fit-AGENT-SEED."""
    threads: int = 1
    """Processor threads."""


def parse(arguments: Sequence[str]) -> FitFlags:
    """The flags, with those of the guide, belief and update that they name.

    Raises:
        UserError: if a number makes no sense.
    """
    config = with_choices(FitConfig(), arguments)
    config = replace(config, online=with_choices(online_for(config.guide, config.online), arguments))
    default = FitFlags(data=tyro.MISSING, run=config)
    flags = read_flags(FitFlags, "fit", arguments, default)
    if not 0 < flags.hold_out < 1:
        raise UserError(f"--hold-out is a share between 0 and 1, not {flags.hold_out}")
    return flags


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    from pyro_dynamics.datasets.sources import read_data  # here, as pandas takes long

    data = read_data(flags.data, flags.group, flags.columns)
    for note in data.notes:
        print(note)
    path = flags.out or Path("runs") / default_name(flags.run)
    how: dict[str, Any] = {"unit": flags.unit, "held_out_share": flags.hold_out, "angles": flags.angles}
    folder = fit_run(flags.run, data, path, sources=flags.data, family=flags.family, **how)
    described = DataDescription.load(folder.path)
    assert described is not None
    print_table(folder, LoggedFamily.of(described))


def default_name(config: FitConfig) -> str:
    """The name of a run's folder where none is given."""
    return f"fit-{config.agent}-{config.seed}"


def fit_run(
    config: FitConfig,
    data: LoggedData,
    path: Path,
    *,
    sources: Sequence[str] = (),
    unit: str = "",
    held_out_share: float = 0.2,
    family: str | None = None,
    angles: Sequence[int] = (),
    again: bool = False,
) -> RunFolder:
    """Learn from logged transitions what a configuration says, and keep the run in a folder.

    Args:
        config: the configuration.
        data: transitions of K environments.
        path: the folder, which must be new, unless it may hold the same fit.
        sources: what the data was read from, for messages and ``data.json``.
        unit: of the column that the data was grouped by; several have commas between them.
        held_out_share: of each environment's episodes, in (0, 1); of a single episode, of its last steps.
        family: a registered family of the same environment, whose task and simulator are used.
        angles: entries of the state that are angles, where there is no family.
        again: take what is in the folder where it is the same fit to the same data.

    Raises:
        UserError: if a setting makes no sense, the data does not go with it, or the folder holds something.
    """
    if not 0 < held_out_share < 1:
        raise UserError(f"the share that is held out lies between 0 and 1, and is not {held_out_share}")
    refuse_one_environment(config, data)
    described = DataDescription.of(sources, data, unit, family, angles)
    warn_of_numbers(data, family, angles)
    kept = hold_out(data, held_out_share, config.seed)
    environments = LoggedFamily.of(described)
    data = as_taken(data, environments.make_task())
    trained, held_out = data.transitions.select(~kept), data.transitions.select(kept)
    run = run_config(config, family, int(data.transitions.step.max()) + 1)
    if again and (path / "config.json").is_file():
        return same_fit(path, to_json(run), described, [trained, held_out])
    require_sizes(run)
    require_pair(run)
    group = build_group(run, environments, action_space(environments, run.steps))
    RunFolder.require_free(path)
    with lock_folder(path):  # only now: bad data and settings have been refused
        elbos = train_group(run, group, trained)
        if run.calibrate:
            group.calibrate(trained, held_out, derive_generator(config.seed, "fit", "calibration"))
        rows = fit_metrics(group, data, kept)
        folder = RunFolder.create(path, to_json(run))  # only now: an interrupted fit leaves the place free
        described.save(folder.path)
        folder.save_round(0, trained, [], group.state_dict(), ())
        folder.save_round(1, held_out, rows, group.state_dict(), ())
        write_json_lines(folder.path / "learning.jsonl", ({"epoch": i, "elbo": elbo} for i, elbo in enumerate(elbos)))
        from pyro_dynamics.plots.fit_figure import draw_fit  # here, as matplotlib takes long

        write_bytes(folder.path / "fit.png", draw_fit(elbos, rows, environments.axis))
        return folder


def as_taken(data: LoggedData, task: Task) -> LoggedData:
    """The data with discrete actions as the one-hot codes for which the environment took what was logged."""
    rows = data.transitions
    return replace(data, transitions=replace(rows, action=decide(rows.action, task.choices)))


def warn_of_numbers(data: LoggedData, family: str | None, angles: Sequence[int]) -> None:
    """Say which numbers a network learns badly as they are; a family knows its angles."""
    rows = data.transitions
    state, next_state = rows.state.double().numpy(), rows.next_state.double().numpy()

    def place(row: int) -> str:
        return f"step {int(rows.step[row])} of {data.column} {label(data.labels[int(rows.environment[row])])}"

    found = [outliers(state, next_state, place)]
    if family is None:
        found.append(likely_angles(state, next_state, known=angles))
    else:
        space: Any = action_space(find_family(family), 1)
        found.append(outside(rows, space.low, space.high) or "")
        if data.rewarded:
            found.append(other_rewards(rows, find_family(family).make_task(), family, place))
    for warning in filter(None, found):
        tqdm.write(f"warning: {warning}", file=sys.stderr)


def same_fit(path: Path, run: dict[str, Any], described: DataDescription, data: Sequence[Transitions]) -> RunFolder:
    """The fit that is in a folder already.

    Raises:
        UserError: if it has other settings, or was made from other data.
    """
    folder = RunFolder.open(path)
    require_same_settings("a fit", path, to_json(from_json(folder.config)), run)
    there = [rows.arrays() for rows in folder.transitions()]
    wanted = [rows.arrays() for rows in data]
    same = len(there) == len(wanted) and all(
        np.array_equal(one[name], other[name]) for one, other in zip(there, wanted, strict=True) for name in other
    )
    if not same or replace(DataDescription.load(path) or described, sources=described.sources) != described:
        raise UserError(f"{path} holds a fit to other data: choose another --out")
    return folder


def train_group(config: RunConfig, group: AgentGroup, data: Transitions) -> list[float]:
    """Train with a progress bar; gives the ELBO of each epoch in nats per transition."""
    elbos: list[float] = []
    with progress_bar(desc="training", unit="epoch", total=epochs(config, group.shares, data)) as bar:

        def on_epoch(epoch: int, elbo: float) -> None:
            elbos.append(elbo)
            bar.set_postfix_str(f"ELBO {elbo:.2f} nats per transition", refresh=False)
            bar.update()

        group.train(data, derive_generator(config.seed, "fit", "training"), on_epoch)
    return elbos


def refuse_one_environment(config: FitConfig, data: LoggedData) -> None:
    """Raises :class:`UserError` where there are not several environments for a latent to distinguish."""
    if len(data.labels) == 1 and config.agent == "latent":
        raise UserError(
            f"all {len(data.transitions)} transitions are of one environment ({data.column} {label(data.labels[0])}): "
            "a latent distinguishes several; name another column by --group, give more data, or fit --agent generalist"
        )


def run_config(fit: FitConfig, family: str | None, steps: int) -> RunConfig:
    """The configuration of the run, with the planner of the family's quick preset if there is a simulator."""
    config = preset_config(family or "pendulum-gravity", "quick")
    chosen = {one.name: getattr(fit, one.name) for one in fields(FitConfig)}
    controller = replace(config.controller, particles=fit.ensemble.members)  # the same number for each network
    return replace(config, family=family or NAME, rounds=1, steps=steps, episodes=1, controller=controller, **chosen)


def epochs(config: RunConfig, shares: Sequence[Sequence[int]], data: Transitions) -> int:
    """Epochs of all agents' trainings."""
    counts = [int(torch.isin(data.environment, torch.tensor(list(share))).sum()) for share in shares]
    return sum(config.offline.sizes(count)[0] for count in counts)


def print_table(folder: RunFolder, family: LoggedFamily) -> None:
    """Amounts of data of each environment, and how well the held-out part is predicted."""
    rows = folder.metrics()
    width = max(21, len(family.axis) + 2)
    print(f"\n{family.axis:<{width}}{'trained on':>11}{'held out':>10}{'log p(s)':>10}{'wrong latent':>14}")
    for row in rows:
        wrong = row["log_likelihood_wrong_latent"]
        permuted = "-" if wrong is None else f"{wrong:.2f}"
        numbers = f"{row['trained_steps']:>11}{row['steps']:>10}{row['log_likelihood']:>10.2f}{permuted:>14}"
        print(f"{label(row['context']):<{width}}{numbers}")
    print("\nlog p(s) is of the held-out transitions, in nats each, under the environment's own latent and the others'")
    print(f"run: {folder.path}\nfigure: {folder.path / 'fit.png'}\nnext: pyro-dynamics diagnose {folder.path}")


if __name__ == "__main__":
    run_as_module("fit")
