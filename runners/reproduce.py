"""pyro-dynamics reproduce: every figure of the paper, with further baselines, reproducibly."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from pyro_dynamics.environments import Context, Schedule, find_family
from pyro_dynamics.environments.checked_env import limit_steps, require_step_limit
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.io.lock import Busy, lock_folder
from pyro_dynamics.processor import set_threads
from pyro_dynamics.reproduction.results import RANDOM, TRUE_DYNAMICS, Measurement, Results, Run
from pyro_dynamics.reproduction.sensitivity import influence_of
from pyro_dynamics.rollouts.evaluation import BeliefAblation, evaluate, random_returns, reset_seeds
from pyro_dynamics.rollouts.simulator_episode import Search, episode, episode_returns
from pyro_dynamics.runners.common.factory import group_for, load_run
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.protocols import BELIEF_ABLATIONS, PROTOCOLS, Protocol, Scale, run_config
from pyro_dynamics.runners.common.training_run import train_or_resume
from pyro_dynamics.runners.main import run_as_module

PAPER_AGENTS = ("latent", "generalist", "specialist")
FIGURES = ("learning", "tests", "dynamic", "latents", "ablation", "influence")
MOST_SEEDS = 1000
PAIR = ("latent", "generalist")
"""Compared on further families."""


@dataclass(frozen=True)
class ReproduceFlags:
    """Train, evaluate and plot the paper's experiments and further baselines, and write a report with intervals.

    It can be stopped at any time and resumes from there, with the same numbers. Existing results in --out are kept: a
    run of `pyro-dynamics train` or `sweep` in OUT/runs/FAMILY/AGENT-SEED is used if its settings are the same, and what
    was measured needs no runs any more, as where OUT was moved without them. Several processes may work on one folder:
    each takes a run that no other has.
    """

    preset: Scale = "cpu"
    """cpu: 200-step episodes, 20 rounds, real-time planner, an hour or two of one core for a seed with its baselines;
    paper-length: the same in the paper's 1000-step episodes, 15 rounds; paper: the paper's own settings, days without
    a GPU; quick: a pendulum for a minute, as a smoke test."""
    figures: tuple[str, ...] = FIGURES
    """Which to make; only what they need is trained and evaluated."""
    seeds: int = 5
    """Seeds of the paper's three agents."""
    baseline_seeds: int = 3
    """Seeds of the oracle, the encoder and the other baselines, and of the further families."""
    out: Path | None = None
    """Folder of the results; by default runs/reproduction-PRESET."""
    time_budget: float | None = None
    """Stop after so many seconds, at the end of a round or of a measurement."""
    report_only: bool = False
    """Report on the existing results, without training or evaluation."""
    step_limit: float | None = None
    """Seconds that one step or reset of an environment may take; in training it is then dropped like one that raises,
    in a measurement it ends the command. No setting of the results: it may differ when the command resumes."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds", "baseline_seeds")
        require_step_limit(self.step_limit)
        if max(self.seeds, self.baseline_seeds) > MOST_SEEDS:
            raise UserError(f"--seeds and --baseline-seeds must be at most {MOST_SEEDS}")
        if self.time_budget is not None:
            require_positive(self, "time_budget")
        if not self.figures:
            raise UserError(f"--figures needs one or more of {', '.join(FIGURES)}")
        for name in self.figures:
            if name not in FIGURES:
                raise UserError(f"there is no figure {name!r}: choose from {', '.join(FIGURES)}")


class OutOfTime(Exception):
    """The time budget is spent."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(ReproduceFlags, "reproduce", arguments)
    set_threads(flags.threads)
    protocol = PROTOCOLS[flags.preset]
    results = Results(flags.out or Path("runs") / f"reproduction-{flags.preset}", flags.preset, asdict(protocol))
    runs, measurements = plan(protocol, flags)
    try:
        if not flags.report_only:
            work(results, flags, runs, measurements)
    except OutOfTime:
        print(f"the {flags.time_budget:g} s are over: the same command resumes from here")
    with lock_folder(results.path, wait=True):
        report(results, protocol, runs, measurements)


def plan(protocol: Protocol, flags: ReproduceFlags) -> tuple[list[Run], list[Measurement]]:
    """All runs and all measurements, in the order in which they are made: seed by seed, the paper's agents first."""
    wanted = set(flags.figures)
    runs: list[Run] = []
    for seed in range(max(flags.seeds, flags.baseline_seeds)):
        if seed < flags.seeds:
            runs += [(protocol.family, agent, seed) for agent in PAPER_AGENTS]
            if protocol.ablation and "ablation" in wanted:
                runs += [(protocol.ablation, agent, seed) for agent in PAIR]
        if seed < flags.baseline_seeds:
            if wanted & {"tests", "dynamic"}:
                runs += [(protocol.family, agent, seed) for agent in protocol.baselines]
            if "influence" in wanted:
                runs += [(family, agent, seed) for family in protocol.influence for agent in PAIR]
    runs = list(dict.fromkeys(runs))
    families = dict.fromkeys(family for family, _, _ in runs)
    random = [Measurement(family, RANDOM, 0, split) for family in families for split in ("train", "test")]
    random.append(Measurement(protocol.family, RANDOM, 0, "dynamic"))
    ceiling = [
        Measurement(family, TRUE_DYNAMICS, seed, split)
        for seed in range(flags.baseline_seeds)
        for family in families
        for split in ceiling_splits(protocol, family, wanted)
    ]
    return runs, random + ceiling + [m for run in runs for m in measurements_of(protocol, run, flags)]


def ceiling_splits(protocol: Protocol, family: str, figures: set[str]) -> list[str]:
    """Where the planner gets the true dynamics: where agents are measured, but for families of the same contexts."""
    if family == protocol.family:
        return ["train", *(["test"] * bool(figures & {"tests", "latents"})), *(["dynamic"] * ("dynamic" in figures))]
    return ["test"] * (family != protocol.ablation)


def measurements_of(protocol: Protocol, run: Run, flags: ReproduceFlags) -> Iterator[Measurement]:
    """The measurements of one trained run."""
    family, agent, seed = run
    ablations = BELIEF_ABLATIONS if agent == "latent" and seed < flags.baseline_seeds else [agent]
    for checkpoint in protocol.checkpoints_of(family):
        if family != protocol.family:
            yield Measurement(family, agent, seed, "ablation" if family == protocol.ablation else "test", checkpoint)
            continue
        for name in ablations:
            if name != "oracle-reset" and {"tests", "latents"} & set(flags.figures):
                yield Measurement(family, name, seed, "test", checkpoint)
            if name != "shuffled" and "dynamic" in flags.figures:  # there is one belief, and none to exchange it with
                yield Measurement(family, name, seed, "dynamic", checkpoint)


def work(results: Results, flags: ReproduceFlags, runs: Sequence[Run], measurements: Sequence[Measurement]) -> None:
    """Train and measure what is missing.

    Raises:
        OutOfTime: between two rounds or measurements.
    """
    end = None if flags.time_budget is None else time.monotonic() + flags.time_budget

    def check_time(*_: object) -> None:
        if end is not None and time.monotonic() > end:
            raise OutOfTime

    for measurement in measurements:
        if measurement.checkpoint is None:
            with left_to_others(), lock_folder(results.path / "measurements" / measurement.family):
                measure_untrained(results, flags, measurement)
            check_time()
    for family in dict.fromkeys(family for family, _, _ in runs):
        if "influence" in flags.figures:
            with left_to_others(), lock_folder(results.path / "influence"):
                if family not in results.influences():
                    results.save_influence(family, influence_of(family, step_limit=flags.step_limit))
            check_time()
    for index, run in enumerate(runs):
        own = [m for m in measurements if m.checkpoint is not None and trained_run(m) == run]
        config = run_config(flags.preset, *run)
        if results.is_done(run, own):
            continue
        check_time()
        print(f"[{index + 1}/{len(runs)}] {' '.join(map(str, run))}", flush=True)
        with left_to_others():
            train_or_resume(config, results.run(*run), after_round=check_time, step_limit=flags.step_limit)
            with lock_folder(results.run(*run)):
                for measurement in own:
                    check_time()
                    measure(results, flags, measurement)
                results.keep_metrics(run)


@contextmanager
def left_to_others() -> Iterator[None]:
    """Leave work to the process that has claimed its folder."""
    try:
        yield
    except Busy:
        print("another process has it: left to that one")


def report(results: Results, protocol: Protocol, runs: Sequence[Run], measurements: Sequence[Measurement]) -> None:
    """Gather the existing results, and write the report."""
    # Here, as matplotlib takes long.
    from pyro_dynamics.reports.report_folder import write_report
    from pyro_dynamics.reports.reproduction_report import findings

    scores, latents = results.gather(runs, measurements)
    influence = {family: found["horizons"][0]["influence"] for family, found in results.influences().items()}
    page = findings(
        scores, latents, protocol.family, find_family(protocol.family).axis, protocol.ablation or "", influence
    )
    print(f"scores: {results.path / 'scores.jsonl'}\nreport: {write_report(page, results.path)}")


def trained_run(measurement: Measurement) -> Run:
    """The run whose agent is measured."""
    agent = "latent" if measurement.agent in BELIEF_ABLATIONS else measurement.agent
    return measurement.family, agent, measurement.seed


def schedules_of(protocol: Protocol, measurement: Measurement) -> tuple[list[Context], list[Schedule]]:
    """The contexts' names in the tables, and their schedules."""
    family = find_family(measurement.family)
    if measurement.split == "dynamic":
        text, schedule = protocol.dynamic()
        return [text], [schedule]
    contexts = family.train if measurement.split == "train" else family.test_contexts
    return list(contexts), [Schedule.constant(context) for context in contexts]


def measure(results: Results, flags: ReproduceFlags, measurement: Measurement) -> None:
    """Evaluate a trained agent on the contexts of a split, and store the returns and beliefs."""
    if results.has(measurement):
        return
    protocol = PROTOCOLS[flags.preset]
    names, schedules = schedules_of(protocol, measurement)
    path = results.run(*trained_run(measurement))
    _, config, family, trained = load_run(path, measurement.checkpoint)
    envs = family.make_vector(schedules, config.steps)
    limit_steps(envs, flags.step_limit)
    group = group_for(trained, family, [schedule.at(0) for schedule in schedules])
    dynamic = measurement.split == "dynamic"
    episodes = protocol.dynamic_episodes if dynamic else protocol.test_episodes
    ablation = BELIEF_ABLATIONS.get(measurement.agent, BeliefAblation())
    words = f"{measurement.agent} {measurement.seed} round {measurement.checkpoint} {measurement.split}"
    with tqdm(total=episodes * config.steps, desc=words, unit="step", dynamic_ncols=True, leave=False) as bar:
        result = evaluate(group, envs, schedules, episodes, measurement.seed, ablation, bar.update)
    envs.close()
    scores = [
        {"context": name, "episode": episode, "return": float(result.returns[episode, k])}
        for k, name in enumerate(names)
        for episode in range(episodes)
    ]
    latents = [
        {"context": name, "mean": result.mean[k].tolist(), "sd": result.scale[k].tolist()}
        for k, name in enumerate(names)
        if config.agent == "latent"  # an oracle has no belief
    ]
    results.save(measurement, scores, latents)


def measure_untrained(results: Results, flags: ReproduceFlags, measurement: Measurement) -> None:
    """Random actions, or the planner on the true dynamics, in every context of a split."""
    if results.has(measurement):
        return
    names, schedules = schedules_of(PROTOCOLS[flags.preset], measurement)
    returns = random_scores if measurement.agent == RANDOM else ceiling_scores
    scores = [
        {"context": name, "episode": episode, "return": value}
        for name, values in zip(names, returns(flags, measurement, schedules), strict=True)
        for episode, value in enumerate(values)
    ]
    results.save(measurement, scores, [])


def random_scores(flags: ReproduceFlags, measurement: Measurement, schedules: Sequence[Schedule]) -> list[list[float]]:
    """Returns of random actions, for each context."""
    protocol, family = PROTOCOLS[flags.preset], find_family(measurement.family)
    found = []
    for k, schedule in enumerate(schedules):
        envs = family.make_vector([schedule] * protocol.random_episodes, protocol.steps)
        limit_steps(envs, flags.step_limit)
        found.append(random_returns(envs, k))
        envs.close()
    return found


def ceiling_scores(flags: ReproduceFlags, measurement: Measurement, schedules: Sequence[Schedule]) -> list[list[float]]:
    """Return of the agents' planner on the simulator itself, for each context, in one episode."""
    config = run_config(flags.preset, measurement.family, "latent", measurement.seed)
    search = Search(config.make_planner, config.controller.horizon, config.steps, flags.threads)
    starts = reset_seeds(measurement.seed, 0, len(schedules))
    words = f"{measurement.agent} {measurement.seed} {measurement.split}"
    with tqdm(total=config.steps, desc=words, unit="step", dynamic_ncols=True, leave=False) as bar:
        steps = episode(find_family(measurement.family), schedules, schedules, search, measurement.seed, starts)
        return [[float(value)] for value in episode_returns(steps, bar.update)]


if __name__ == "__main__":
    run_as_module("reproduce")
