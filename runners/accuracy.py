"""pyro-dynamics accuracy: measure how close each guide comes to the posterior, and the time of an update."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
import tyro
from torch import Tensor
from torch.distributions import MultivariateNormal
from tqdm import tqdm

from pyro_dynamics.diagnostics.posterior.accuracy import (
    Trust,
    closeness,
    grid_posterior,
    log_density,
    mean_field_optimum,
    posterior_moments,
    run_nuts,
    trust,
    update_milliseconds,
)
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.guides import GUIDES, Guide
from pyro_dynamics.inference import (
    KalmanUpdate,
    KalmanUpdateConfig,
    OfflineConfig,
    OfflineInference,
    RecursiveBelief,
    SVIUpdate,
    SVIUpdateConfig,
    linear_gaussian_posterior,
)
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.io.files import results_folder, write_bytes, write_json
from pyro_dynamics.io.provenance import provenance
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian
from pyro_dynamics.processor import set_threads
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.seeding import derive_generator, drawing_from

ENVIRONMENTS, PRACTICE, ROWS = 4, 64, 10
"""Environments of the linear model; environments that shared networks are trained on; transitions in each."""
INPUTS, LATENTS, TARGETS, NOISE = 2, 2, 2, 0.5
"""Sizes of both models, and standard deviation of the linear model's noise."""
LATENT_GAIN, OUTPUT_GAIN, NEURAL_NOISE = 4.0, 4.0, 0.8
"""Scales of the small network's first and last weights, which make it nonlinear within the prior; its noise."""
R_HAT = 1.02
"""Above this the chains have not mixed, and NUTS is no reference."""

Row = dict[str, Any]


@dataclass(frozen=True)
class AccuracyFlags:
    """Measure every guide family and both updates against known posteriors, and time their updates.

    Three tables: a linear-Gaussian model, whose posterior is known in closed form; a small neural model, whose
    posterior is sampled by NUTS and summed on a grid; and the CPU time of an update at the size of HalfCheetah.
    Nothing is read: models and data are drawn from the seed. Prints the tables and stores them in OUT/table.md and
    OUT/accuracy.json.
    """

    guides: Annotated[tuple[str, ...], tyro.conf.arg(metavar=f"[{GUIDES.choices} ...]")] = tuple(GUIDES)
    """Guide families, each with its default settings."""
    parts: tuple[Literal["linear", "neural", "time"], ...] = ("linear", "neural", "time")
    """Tables to make."""
    out: Path = Path("accuracy")
    """Folder of the results."""
    seed: int = 0
    """Names the random streams: models, data, draws."""
    steps: int = 2000
    """Gradient steps of a fit at rate 1e-2; half as many follow at 1e-3."""
    samples: int = 16
    """Draws of e for each gradient."""
    practice: int = 1500
    """Steps of offline training for guides whose environments share networks (flow, amortized)."""
    warm_up: int = 500
    """Warm-up steps of NUTS, in each of two chains."""
    draws: int = 1500
    """Draws of NUTS, in each of two chains."""
    repeats: int = 5
    """Updates whose median time is reported."""
    threads: int = 1
    """CPU threads."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "samples", "practice", "repeats")
        # The adaptation of NUTS and the split chains of R-hat need a minimum of draws.
        for name in ("warm_up", "draws"):
            if getattr(self, name) < 20:
                raise UserError(f"--{name.replace('_', '-')} must be at least 20, not {getattr(self, name)}")


@dataclass(frozen=True)
class Problem:
    """A fixed model with data to fit, and practice data of other environments for guides with shared networks.

    Attributes:
        model: over the K environments of ``data``.
        data: inputs ``[N, I]``, targets ``[N, T]``, environment ``[N]``.
        practice: the same of P other environments.
    """

    model: HierarchicalModel
    data: tuple[Tensor, Tensor, Tensor]
    practice: tuple[Tensor, Tensor, Tensor]


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(AccuracyFlags, "accuracy", arguments)
    methods = methods_of(flags.guides)
    if not flags.parts:
        raise UserError("--parts needs one or more of linear, neural, time")
    set_threads(flags.threads)
    results_folder(flags.out)
    results: dict[str, Any] = {"flags": asdict(flags) | {"out": str(flags.out)}, "provenance": provenance()}
    measure = {"linear": linear, "neural": neural, "time": times}
    with tqdm(total=len(methods) * len(flags.parts), unit="fit", disable=None, dynamic_ncols=True) as bar:
        for part in dict.fromkeys(flags.parts):
            results[part] = measure[part](flags, methods, bar)
    text = "\n\n".join(tables_of(results).values())
    write_bytes(flags.out / "table.md", (text + "\n").encode())
    write_json(flags.out / "accuracy.json", results)
    print(f"{text}\n\nresults: {flags.out}")


def methods_of(guides: Sequence[str]) -> list[tuple[str, str]]:
    """Guide and update of each row; the extended Kalman update is for families that can be set to a Gaussian.

    Raises:
        UserError: if there is no such family.
    """
    if not guides:
        raise UserError(f"--guides needs one or more of {', '.join(GUIDES)}")
    methods = []
    for name in dict.fromkeys(guides):
        family = GUIDES.find(name)
        methods.append((name, "encoder" if family.reads_transitions else "svi"))
        if family.match is not Guide.match:
            methods.append((name, "kalman"))
    return methods


def tables_of(results: dict[str, Any]) -> dict[str, str]:
    """The table of each part that was measured, from what is stored in ``accuracy.json``."""
    make: dict[str, Any] = {"linear": linear_table, "neural": neural_table, "time": time_table}
    return {part: make[part](results[part], results["flags"]) for part in make if part in results}


def linear(flags: AccuracyFlags, methods: Sequence[tuple[str, str]], bar: tqdm) -> list[Row]:
    """Rows of the linear-Gaussian model."""
    problem = linear_problem(flags.seed)
    inputs, targets, _ = problem.data
    design = cast(LinearGaussian, problem.model.likelihood).design(inputs).view(ENVIRONMENTS, -1, LATENTS)
    prior_covariance = torch.eye(LATENTS).expand(ENVIRONMENTS, -1, -1)
    exact = linear_gaussian_posterior(
        torch.zeros(ENVIRONMENTS, LATENTS), prior_covariance, design, targets.view(ENVIRONMENTS, -1), NOISE
    )
    rows = [row("exact", "", closeness(*exact, *exact))]
    rows.append(row("mean-field optimum", "", closeness(exact[0], mean_field_optimum(exact[1]), *exact)))
    for name, update in methods:
        bar.set_description(f"linear {name} {update}")
        guide, seconds = fit(name, update, problem, flags)
        found = found_moments(guide, flags)
        rows.append(row(name, update, closeness(*found, *exact), seconds=seconds))
        bar.update()
    return rows


def linear_table(rows: list[Row], _: dict[str, Any]) -> str:
    """Title and table."""
    title = f"Linear-Gaussian model, {ENVIRONMENTS} environments, d = {LATENTS}: against the exact posterior"
    return f"{title}\n\n{markdown(rows, LINEAR_COLUMNS)}"


def neural(flags: AccuracyFlags, methods: Sequence[tuple[str, str]], bar: tqdm) -> dict[str, Any]:
    """Rows of the small neural model, and how well NUTS mixed."""
    problem = neural_problem(flags.seed)
    density = log_density(problem.model, *problem.data[:2])
    bar.set_description("neural NUTS")
    grid = grid_posterior(density)
    generator = derive_generator(flags.seed, "NUTS")
    start = time.process_time()
    nuts = run_nuts(density, LATENTS, flags.warm_up, flags.draws, 2, generator)
    seconds = time.process_time() - start
    exact = (nuts.mean, nuts.covariance)
    rows = [row("NUTS", "", closeness(*exact, *exact), seconds=seconds)]
    rows.append(row("grid", "", closeness(grid.mean, grid.covariance, *exact)))
    optimum = MultivariateNormal(grid.mean, grid.covariance)
    best = trust(optimum, density, grid.log_evidence, derive_generator(flags.seed, "trust"))
    rows.append(row("Gaussian, grid's moments", "", closeness(grid.mean, grid.covariance, *exact), best))
    for name, update in methods:
        bar.set_description(f"neural {name} {update}")
        guide, seconds = fit(name, update, problem, flags)
        found = None
        if guide.has_density:
            found = trust(guide.frozen(), density, grid.log_evidence, derive_generator(flags.seed, "trust"))
        rows.append(row(name, update, closeness(*found_moments(guide, flags), *exact), found, seconds))
        bar.update()
    chains = {"r_hat": nuts.r_hat, "effective": nuts.effective, "skewness": grid.skewness}
    return {"chains": chains, "rows": rows}


def neural_table(found: dict[str, Any], _: dict[str, Any]) -> str:
    """Title and table."""
    chains, (first, second) = found["chains"], found["chains"]["skewness"]
    words = [
        f"Small neural model, one environment, {ROWS} transitions, d = {LATENTS}: against NUTS "
        f"(R-hat {chains['r_hat']:.3f}, {chains['effective']:.0f} effective draws). Skewness of the marginals: "
        f"{first:.2f} and {second:.2f}."
    ]
    if not chains["r_hat"] <= R_HAT:
        words.append(f"R-hat is above {R_HAT}: the chains have not mixed, so the comparison below is not reliable.")
    text = "\n".join(words)
    return f"{text}\n\n{markdown(found['rows'], NEURAL_COLUMNS)}"


def times(flags: AccuracyFlags, methods: Sequence[tuple[str, str]], bar: tqdm) -> list[Row]:
    """Rows of the time of a streaming update at the size of HalfCheetah, K = 1."""
    generator = derive_generator(flags.seed, "time")
    config = EnsembleConfig(hidden=(128, 128, 128), weight_decay=(2.5e-5, 5e-5, 7.5e-5, 1e-4))
    with drawing_from(generator):
        model = HierarchicalModel(Ensemble(24, LATENTS, 18, config), 1, LATENTS)
    steps = [
        (torch.randn(1, 24, generator=generator), torch.randn(1, 18, generator=generator))
        for _ in range(flags.repeats + 1)
    ]
    rows = []
    for name, update in methods:
        bar.set_description(f"time {name} {update}")
        guide = fresh_guide(name, 1, 24 + 18, generator).for_environments(1)
        rule: Any = KalmanUpdate(KalmanUpdateConfig()) if update == "kalman" else SVIUpdate(SVIUpdateConfig())
        cost = update_milliseconds(RecursiveBelief(model, guide, rule), steps, generator) if guide.has_density else None
        rows.append({"guide": name, "update": update, "milliseconds": cost})
        bar.update()
    return rows


def time_table(rows: list[Row], flags: dict[str, Any]) -> str:
    """Title and table."""
    title = (
        f"Streaming update of one environment by one transition, HalfCheetah's sizes (5 networks, 3 layers of 128), "
        f"{flags['threads']} thread(s): median CPU time of {flags['repeats']}"
    )
    return f"{title}\n\n{markdown(rows, TIME_COLUMNS)}"


def linear_problem(seed: int) -> Problem:
    """A linear model whose posteriors have a correlation near -0.8."""
    generator = derive_generator(seed, "linear")
    likelihood = LinearGaussian(INPUTS, LATENTS, TARGETS, NOISE, 1, generator)
    # Each transition depends nearly on the sum of both latents: it is well determined, their difference much less.
    likelihood.base.copy_(torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
    likelihood.slope *= 0.1
    return with_data(likelihood, ENVIRONMENTS, generator)


def neural_problem(seed: int) -> Problem:
    """A fixed network of two nearly equal members, nonlinear in the latent, and the data of one environment."""
    generator = derive_generator(seed, "neural")
    with drawing_from(generator):
        config = EnsembleConfig(members=2, hidden=(16,), weight_decay=(0.0, 0.0))
        ensemble = Ensemble(INPUTS, LATENTS, TARGETS, config).requires_grad_(False)
        ensemble.weights[0][:, INPUTS:] *= LATENT_GAIN
        ensemble.weights[1] *= OUTPUT_GAIN
        for weight in ensemble.weights:  # members that had nothing in common could not explain the same data
            weight[1] = weight[0] + 0.1 * weight[0].std() * torch.randn_like(weight[0])
    # With equal bounds the scale lies between this and sqrt(2) times it, and cannot be traded for bias.
    ensemble.max_log_variance.fill_(2 * math.log(NEURAL_NOISE))
    ensemble.min_log_variance.fill_(2 * math.log(NEURAL_NOISE))
    return with_data(ensemble, 1, generator)


def with_data(likelihood: Any, environments: int, generator: torch.Generator) -> Problem:
    """Transitions drawn from the likelihood (its first member), with latents from the prior."""
    seen = torch.randn(PRACTICE * ROWS, INPUTS, generator=generator)
    likelihood.fit_normaliser(seen)  # as training on the practice data would, which then changes nothing

    def draw(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count = len(inputs) // ROWS
        owner = torch.arange(count).repeat_interleave(ROWS)
        latent = torch.randn(count, LATENTS, generator=generator)[owner]
        location, scale = likelihood(*(x.expand(likelihood.members, *x.shape) for x in (inputs, latent)))
        noise = torch.randn(location[0].shape, generator=generator)
        return inputs, location[0] + scale[0] * noise, owner

    fresh = torch.randn(environments * ROWS, INPUTS, generator=generator)
    return Problem(HierarchicalModel(likelihood, environments, LATENTS), draw(fresh), draw(seen))


def fit(name: str, update: str, problem: Problem, flags: AccuracyFlags) -> tuple[Guide, float]:
    """A guide fitted from N(0, I) to all of the problem's data in one batch, and the CPU seconds it took.

    Networks that environments share are fixed online: they are trained on the practice environments before, which is
    not included.
    """
    generator = derive_generator(flags.seed, "fit", name, update)
    guide = fresh_guide(name, PRACTICE, INPUTS + TARGETS, generator)
    if guide.shared:
        practise(guide, problem, flags, generator)
    guide = guide.for_environments(problem.model.environments)
    start = time.process_time()
    guide.observe(*problem.data)
    for rule in rules(update, flags):
        batch = whole_batch(*problem.data, problem.model.likelihood.members)
        rule.fit(problem.model, guide, problem.model.prior(), batch, generator)
    return guide, time.process_time() - start


def fresh_guide(name: str, environments: int, transition_dim: int, generator: torch.Generator) -> Guide:
    """An untrained guide with the family's default settings."""
    make = GUIDES.find(name)
    extra = {"transition_dim": transition_dim} if make.reads_transitions else {}
    with drawing_from(generator):
        return make(environments, LATENTS, make.Config(), **extra)


def practise(guide: Guide, problem: Problem, flags: AccuracyFlags, generator: torch.Generator) -> None:
    """Train a guide over the practice environments; a minibatch has half of the transitions, so about 5 of each."""
    config = OfflineConfig(
        5e-3, 5e-3, batch_size=PRACTICE * ROWS // 2, epochs=1, min_steps=flags.practice, lr_decay=True
    )
    model = problem.model.for_environments(PRACTICE)
    OfflineInference(model, guide, config).train(*problem.practice, generator)


def rules(update: str, flags: AccuracyFlags) -> list[Any]:
    """The consecutive fits."""
    if update == "encoder":
        return []
    if update == "kalman":
        return [KalmanUpdate(KalmanUpdateConfig())]
    first = SVIUpdateConfig(flags.steps, 1e-2, flags.samples)
    return [SVIUpdate(first), SVIUpdate(replace(first, steps=(flags.steps + 1) // 2, learning_rate=1e-3))]


def found_moments(guide: Guide, flags: AccuracyFlags) -> tuple[Tensor, Tensor | None]:
    """Mean ``[K, d]`` and covariance ``[K, d, d]`` of the guide; a point has only the one."""
    if not guide.has_density:
        return guide.frozen().mean, None
    return posterior_moments(guide.frozen(), derive_generator(flags.seed, "moments"))


def row(name: str, update: str, close: Any, quality: Trust | None = None, seconds: float | None = None) -> Row:
    """A line of a table, as plain data."""
    trusted = {} if quality is None else asdict(quality)
    return {"guide": name, "update": update, **asdict(close), **trusted, "seconds": seconds}


LINEAR_COLUMNS = {
    "mean_error": ("mean error, sd", ".3f"),
    "sd_ratio": ("sd ratio", ".3f"),
    "correlation": ("correlation", ".3f"),
    "covariance_error": ("covariance error", ".1%"),
    "seconds": ("fit, s", ".2f"),
}
"""Columns of the tables by the key in the rows: heading and format."""
NEURAL_COLUMNS = {
    "mean_error": ("mean error, sd", ".3f"),
    "sd_ratio": ("sd ratio", ".3f"),
    "correlation": ("correlation", ".3f"),
    "k_hat": ("k-hat", ".2f"),
    "divergence": ("KL(q to p), nats", ".3f"),
    "seconds": ("fit, s", ".2f"),
}
TIME_COLUMNS = {"milliseconds": ("CPU time, ms", ".1f")}


def markdown(rows: Iterable[Row], columns: dict[str, tuple[str, str]]) -> str:
    """A Markdown table; what cannot be measured is a dash."""
    lines = []
    for entry in rows:
        values = ((entry.get(key), form) for key, (_, form) in columns.items())
        cells = ("-" if value is None else format(value, form) for value, form in values)
        lines.append([entry["guide"], entry["update"], *cells])
    return markdown_table(["guide", "update", *(heading for heading, _ in columns.values())], lines, words=2)


if __name__ == "__main__":
    run_as_module("accuracy")
