"""pyro-dynamics diagnose: should one believe this posterior? A report in figures and in words."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.diagnosis import (
    PosteriorQuality,
    look_at_latents,
    missed_by_guides,
    posterior_quality,
)
from pyro_dynamics.diagnostics.posterior.nuts_check import NutsCheck, compare_with_nuts
from pyro_dynamics.diagnostics.posterior.simulation_calibration import SBC, simulation_calibration
from pyro_dynamics.diagnostics.prediction.forecast import traversal
from pyro_dynamics.diagnostics.prediction.held_out import predict_held_out
from pyro_dynamics.diagnostics.thinning import thinned, thinned_episodes, thinning_note
from pyro_dynamics.diagnostics.verdict import MEANINGS, Word
from pyro_dynamics.environments import Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.drawn_family import DrawnFamily
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.files import plain, results_folder, write_json, write_tree
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.io.tables import text_table
from pyro_dynamics.plots.formats import FigureFormat
from pyro_dynamics.processor import set_threads
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.rollouts.stream_verdict import judge_adaptation, reached
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.drawn_episodes import newest_environments
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.refits import fitted_to, refits
from pyro_dynamics.runners.common.result_names import keep_older, name_of_values
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.seeding import derive_generator
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

if TYPE_CHECKING:
    from xarray import DataTree

    from pyro_dynamics.reports.diagnosis_report import Findings
    from pyro_dynamics.reports.report import Report

SBC_LENGTH, SBC_DRAWS = 30, 99
"""Transitions of each simulated environment, and draws among which the true latent's rank is taken."""
NUTS_ROWS, NUTS_DRAWS, NUTS_WARM_UP, NUTS_CHAINS = 50, 200, 200, 2
"""A thinned data set: each leapfrog step of NUTS evaluates the network on all of it."""
ORACLE = "an oracle, which is given the true context and infers nothing,"

DRAWS = (1000, 4000)
"""From each posterior; the second where the first is too few for a strongly over-dispersed guide."""
LEAST = {"draws": 100, "rows": 0, "horizon": 1, "particles": 20, "refits": 0, "sbc": 0, "seed": 0}
DECISIVE = (*LEAST, "nuts", "compare", "checkpoint")
"""Flags that change what is found."""
FEWEST = 10
"""Rows of each environment that a posterior is judged on."""
MOST = {"draws": 20_000, "particles": 20_000, "refits": 100}
"""More would fill the memory, and add nothing new."""


@dataclass(frozen=True)
class DiagnoseFlags:
    """Judge whether the posteriors of a run, or the belief of an adaptation, can be believed.

    For a run: compares the guide with the model by importance sampling (shift, width, Pareto k-hat), looks for parts of
    the posterior that it misses, leaves transitions out, and predicts the last round's episodes, which the checkpoint
    was not trained on, one step ahead and many. Prints a verdict for each environment; writes report.html (one file
    with its figures inside), report.md, diagnostics.json and posterior.nc (for ArviZ) to DIR/diagnose.

    For the results of `adapt` (DIR/adapt/NAME): the same along the stream, and when the belief went wrong.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a trained run, or of the results of an adaptation."""
    draws: int | None = None
    """Draws from each posterior; by default 1000, and 4000 where a guide is so over-dispersed that few count."""
    rows: int = 20_000
    """Transitions that a run is judged on, of all environments together; 0 takes all. Of a run with more, the guide is
    fitted again to so many of them, evenly spread, and judged on these, and so many held-out ones are predicted."""
    horizon: int = 20
    """Steps of the many-step predictions."""
    particles: int = 200
    """Particles of each many-step prediction."""
    refits: int = 0
    """Fit the guide so many times more, from other starts, with the network as it is: the refits become chains, and
    R-hat says whether they agree. Seconds to a minute each."""
    sbc: int = 0
    """Simulate so many environments from the prior, and see whether the online belief about them is calibrated
    (simulation-based calibration). 200 show something: seconds with the Kalman update, minutes with svi."""
    nuts: bool = False
    """Compare the guide with NUTS in each environment, on a thinned data set. Minutes."""
    compare: tuple[Path, ...] = ()
    """Runs of other seeds, whose latents are shown beside these after a Procrustes transform."""
    seed: int = 0
    """Names the random streams."""
    checkpoint: int | None = None
    """Round whose checkpoint is judged; the newest by default."""
    out: Path | None = None
    """Where the report goes; DIR/diagnose by default, with the flags in its name that are not the defaults."""
    figure_format: FigureFormat = "png"
    """Of the figures' files; pdf and svg, for print, are written beside the PNGs."""
    threads: int = 1
    """CPU threads."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(DiagnoseFlags, "diagnose", arguments)
    check(flags)
    set_threads(flags.threads)
    if (flags.dir / "config.json").is_file() or not without_clutter(adaptations(flags.dir), flags.dir):
        diagnose_run(flags)
    else:
        diagnose_adaptation(flags)


def adaptations(folder: Path) -> list[Path]:
    """The steps of what may be the results of an adaptation, or a folder of several."""
    return [*folder.glob("steps.jsonl"), *folder.glob("*/steps.jsonl")]


def check(flags: DiagnoseFlags) -> None:
    """Refuse numbers that make no sense.

    Raises:
        UserError: naming the flag.
    """
    for name, least in LEAST.items():
        value = getattr(flags, name)
        if value is None:
            continue
        if value < least:
            raise UserError(f"--{name} must be at least {least}, not {value}")
        if name in MOST and value > MOST[name]:
            raise UserError(f"--{name} must be at most {MOST[name]}, not {value}: memory grows with it")
    if 0 < flags.sbc < 50:
        raise UserError(f"--sbc needs at least 50 simulations to show anything, not {flags.sbc}")


def diagnose_run(flags: DiagnoseFlags) -> None:
    """Judge the posteriors of a trained run."""
    # Here, as ArviZ and matplotlib take long.
    from pyro_dynamics.diagnostics.posterior.datatree import environment_labels
    from pyro_dynamics.reports.diagnosis_report import Findings, Posterior, run_report

    folder, config, family, group = load_run(flags.dir, flags.checkpoint)
    halves = None
    if isinstance(family, DrawnFamily):
        m, family, group, *halves = newest_environments(folder, family, group, flags.checkpoint)
    agent, labels = group.agents[0], environment_labels(family.train, len(family.train))
    if 0 < flags.rows < FEWEST * len(labels):
        raise UserError(
            f"--rows must be {FEWEST * len(labels)} or more for {len(labels)} environments, not {flags.rows}"
        )
    if halves is None:
        m, *halves = read_transitions(folder, flags.checkpoint, agent.task, len(labels))
    parts = halves
    trained = thinned(parts[0], len(labels), flags.rows)
    episodes = thinned_episodes(parts[1], len(labels), flags.rows)
    believes = bool(agent.guide.latent_dim) and agent.guide.has_density
    check_posterior(flags, config, believes)
    note = thinning_note(parts, (trained if believes else parts[0], episodes))
    others = {str(path): latent_means(path, config) for path in flags.compare}

    def place_of(checkpoint: int | None) -> Path:
        return folder.path / f"diagnose{name_of(replace(flags, checkpoint=checkpoint))}"

    if flags.out is None and flags.checkpoint is None:
        keep_older(place_of(None), m, place_of)
    out = results_folder(flags.out or place_of(flags.checkpoint), flags.dir)

    if note:
        print(note)
    stage("predicting held-out episodes")
    held_out = predict_held_out(group, episodes, flags.horizon, flags.particles, flags.seed)
    posterior = None
    if believes:
        if len(trained) < len(parts[0]):
            stage(f"fitting the guide to {len(trained)} transitions")
            agent = fitted_to(agent, config, trained, flags.seed)
        agents = [agent, *refits(agent, config, family, trained, flags.refits, flags.seed)]
        about = {"run": str(flags.dir), "round": m, "seed": flags.seed}
        about |= {"parameter": ", ".join(family.parameters), "parameter_unit": ", ".join(family.units)}
        tree, quality = weighed(agents, trained, family, about, flags)
        write_tree(out / "posterior.nc", tree)
        posterior = Posterior(
            tree,
            quality,
            look_at_latents(tree, family.train),
            others,
            traversal(agent, episodes, held_out.horizon) if len(labels) > 1 else None,
            calibrated(agent, trained, flags) if flags.sbc else None,
            beside_nuts(agent, trained, flags) if flags.nuts else None,
        )

    else:
        (out / "posterior.nc").unlink(missing_ok=True)  # of another agent, whose results were here before

    exact = "its last layer by exact Bayesian regression" if config.agent == "last-layer" else f"guide {config.guide}"
    how = "given its context" if agent.guide.context_given else exact
    title = f"{family.name}: {config.agent} agent, {how}, round {m}"
    found = Findings(title, family, agent.task, labels, held_out, posterior, note)
    settings = {name: getattr(flags, name) for name in ("rows", "horizon", "particles", "refits", "seed")}
    settings["draws"] = None if posterior is None else posterior.quality[0].importance.draws
    verdicts = [{"environment": name, **asdict(one)} for name, one in found.verdicts.items()]
    numbers = {"verdicts": verdicts, "predictions": held_out.quality}
    if posterior is not None:
        numbers |= {name: getattr(posterior, name) for name in ("quality", "latents", "sbc", "nuts")}
    write_json(out / "diagnostics.json", plain({"run": str(flags.dir), "round": m, "settings": settings, **numbers}))
    print_verdicts(found)
    stage("drawing the report")
    if config.agent == "oracle":
        print(f"\n{ORACLE} has no posterior to judge: these verdicts are on its predictions")
    save_report(run_report(found), out, flags.figure_format)


def name_of(flags: DiagnoseFlags) -> str:
    """The part of the default folder's name from flags that change the findings."""
    given, usual = ({name: getattr(of, name) for name in DECISIVE} for of in (flags, DiagnoseFlags(flags.dir)))
    return name_of_values(given, usual)


def weighed(
    agents: Sequence[Agent], trained: Transitions, family: Family, about: dict[str, Any], flags: DiagnoseFlags
) -> "tuple[DataTree, list[PosteriorQuality]]":
    """Draws from each posterior, and what the model says of them."""
    from pyro_dynamics.diagnostics.posterior.datatree import to_datatree, with_parameters

    for draws in DRAWS if flags.draws is None else (flags.draws,):
        stage(f"weighing {draws} draws of each posterior")
        with progress_bar(total=len(agents) * len(trained), desc=f"{draws} draws", unit="transition") as bar:
            tree = to_datatree(
                agents, trained, draws, contexts=family.train, seed=flags.seed, attrs=about, on_rows=bar.update
            )
        quality = posterior_quality(tree)
        if not any(one.importance.only_wide for one in quality):
            break
    stage("looking for what the posteriors miss")
    called = ", ".join(family.parameters)
    names = [f"the latent of {called} {label(context)}" for context in family.train]
    with progress_bar(total=len(trained), desc="elsewhere", unit="transition") as bar:
        missed = missed_by_guides(agents[0], trained, tree, names, flags.seed, on_rows=bar.update)
    quality = [replace(one, missed=part) for one, part in zip(quality, missed, strict=True)]
    means = agents[0].posterior().mean.numpy()
    return with_parameters(tree, means, family), quality


def read_transitions(
    folder: RunFolder, checkpoint: int | None, task: Task, environments: int
) -> tuple[int, Transitions, Transitions]:
    """The round m of the checkpoint, what it was trained on (rounds before m), and its episodes, which it was not.

    Raises:
        UserError: if nothing was trained yet, or if transitions are not finite, or not of K such environments.
    """
    m = folder.last_round if checkpoint is None else checkpoint
    rounds = folder.transitions()
    if not m or m >= len(rounds):
        raise UserError(f"{folder.path} has no trained round to judge: resume it with train --resume {folder.path}")
    for index, data in enumerate(rounds[: m + 1]):
        where = f"{folder.path}, round {index}"
        data.require_of(environments, task.state_dim, task.action_dim, where)
        data.require_finite(where)
    return m, Transitions.concatenate(rounds[:m]), rounds[m]


def check_posterior(flags: DiagnoseFlags, config: RunConfig, believes: bool) -> None:
    """Refuse what needs a posterior where there is none.

    Raises:
        UserError: saying so.
    """
    if not believes and (flags.refits or flags.sbc or flags.nuts or flags.compare):
        who = ORACLE if config.agent == "oracle" else f"a {config.agent} agent with the guide {config.guide}"
        raise UserError(f"{who} has no posterior: leave out --refits, --sbc, --nuts and --compare")


def latent_means(path: Path, config: RunConfig) -> np.ndarray:
    """Latent means ``[K, d]`` of another run of the same family.

    Raises:
        UserError: if it is none.
    """
    _, other, _, group = load_run(path)
    if (other.family, other.agent) != (config.family, config.agent):
        raise UserError(f"--compare {path} is a {other.agent} run of {other.family}, not of {config.family}")
    if other.episode_contexts != config.episode_contexts:
        raise UserError(
            f"--compare {path} has latents of --episode-contexts {other.episode_contexts}, and this run of "
            f"{config.episode_contexts}: compare runs that were trained in the same environments"
        )
    return group.beliefs()[0].numpy()


def calibrated(agent: Agent, data: Transitions, flags: DiagnoseFlags) -> SBC:
    """Simulation-based calibration of the run's own online belief."""
    generator = derive_generator(flags.seed, "diagnose", "sbc")
    with progress_bar(total=flags.sbc * SBC_LENGTH, desc="simulations", unit="update") as bar:
        return simulation_calibration(agent, data, flags.sbc, SBC_LENGTH, SBC_DRAWS, generator, on_step=bar.update)


def beside_nuts(agent: Agent, data: Transitions, flags: DiagnoseFlags) -> list[NutsCheck]:
    """The guide's family beside NUTS, in each environment."""
    checks = []
    for k in progress_bar(range(agent.environments), desc="NUTS", unit="environment"):
        generator = derive_generator(flags.seed, "diagnose", "nuts", k)
        checks.append(compare_with_nuts(agent, data, k, NUTS_ROWS, NUTS_DRAWS, NUTS_WARM_UP, NUTS_CHAINS, generator))
    return checks


def diagnose_adaptation(flags: DiagnoseFlags) -> None:
    """Judge the belief along an adaptation."""
    adaptation = load_adaptation(flags.dir)
    run = run_of(flags.dir, adaptation.summary)
    folder, _, family, group = load_run(run, adaptation.summary["checkpoint"])
    if adaptation.summary["online"].get("prior") == "standard":  # where its belief began
        group.forget_population()
    if adaptation.summary.get("network", group.fingerprint()) != group.fingerprint():  # older ones do not hold it
        raise UserError(f"{flags.dir} was made with another network than the one that {run} holds now: adapt again")
    for context in {context for context in adaptation.contexts if context is not None}:  # logged streams may not know
        family.parse_context(context)  # one that the family does not know is refused in words
    out = results_folder(flags.out or flags.dir / "diagnose", flags.dir)
    expected = reached(folder, adaptation.summary["checkpoint"])
    diagnosis = judge_adaptation(adaptation, group, family, expected)
    from pyro_dynamics.reports.stream_report import stream_report  # here, as matplotlib takes long

    report = stream_report(adaptation, diagnosis, family, group.beliefs()[0].numpy())
    write_json(out / "diagnostics.json", plain({"adaptation": str(flags.dir), **asdict(diagnosis)}))
    print(diagnosis.verdict.text)
    save_report(report, out, flags.figure_format)


def run_of(folder: Path, summary: dict[str, Any]) -> Path:
    """The run whose agent adapted: two folders up, or where it was then if the results were put elsewhere.

    The latter is a path that a file names, and so it is printed; what is there is read as data, and nothing is written.

    Raises:
        UserError: if it is in neither place.
    """
    places = [Path(summary["run"]), folder.resolve().parent.parent]
    for place in reversed(places):
        if (place / "config.json").is_file():
            print(f"run: {place}")
            return place
    raise UserError(f"the run of {folder} is neither {places[0]} nor {places[1]}: move the results back beside it")


def stage(words: str) -> None:
    """Say on standard error what is being done, which may take a while."""
    print(f"{words} ...", file=sys.stderr, flush=True)


def print_verdicts(found: "Findings") -> None:
    """One line for each environment, and what each word in it means."""
    rows = [
        [name, one.word, *numbers] for (name, one), numbers in zip(found.verdicts.items(), found.numbers, strict=True)
    ]
    head = [found.family.axis, "verdict", "off (sd)", "width / posterior's", "k-hat", "elsewhere"]
    head.append("network's 90 % covers")
    print("\n" + text_table(head, rows, words=2) + "\n")
    for word, names in found.by_word.items():
        print(f"{word}: {MEANINGS[word]}")
        if word != Word.BELIEVE:
            print("\n".join(f"  {name}: {found.verdicts[name].why}" for name in names))


def save_report(report: "Report", out: Path, figure_format: FigureFormat) -> None:
    """Write the report, and say where it is."""
    from pyro_dynamics.reports.report_folder import write_report

    print(f"\nreport: {write_report(report, out, figure_format)}")
    if (out / "posterior.nc").exists():
        print(f"posterior for ArviZ: {out / 'posterior.nc'}")


if __name__ == "__main__":
    run_as_module("diagnose")
