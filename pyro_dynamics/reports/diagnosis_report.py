"""The report of ``pyro-dynamics diagnose``: what was measured, in tables, figures and words for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xarray import DataTree

from pyro_dynamics.diagnostics.diagnosis import ACTIVE, Latents, PosteriorQuality
from pyro_dynamics.diagnostics.posterior.nuts_check import NutsCheck
from pyro_dynamics.diagnostics.posterior.simulation_calibration import SBC
from pyro_dynamics.diagnostics.prediction.held_out import HeldOut
from pyro_dynamics.diagnostics.verdict import MEANINGS, Verdict, Word, judge_posterior
from pyro_dynamics.environments import Family
from pyro_dynamics.plots.posterior_figures import draw_k_hat, draw_latents, draw_pairs, draw_prior_posterior
from pyro_dynamics.plots.prediction_figures import draw_coverage, draw_fans, draw_traversal
from pyro_dynamics.plots.uniformity_figures import draw_pit, draw_sbc
from pyro_dynamics.reports.report import Figure, Report, Section, Table
from pyro_dynamics.tasks import Task

R_HAT = 1.01
"""Above this independent refits disagree (Vehtari et al. 2021)."""


@dataclass(frozen=True)
class Posterior:
    """What was measured of the posteriors of K environments.

    Attributes:
        tree: the draws, with the guide of the run as the first chain.
        quality: of each environment's guide.
        latents: all of them together.
        others: latent means ``[K, d]`` of other runs.
        paths: latent traversal: for each environment the path ``[H]`` of one state, and that state's index; None
            where there is only one environment.
        sbc: simulation-based calibration, if requested.
        nuts: comparison with NUTS in each environment, if requested.
    """

    tree: DataTree
    quality: list[PosteriorQuality]
    latents: Latents
    others: Mapping[str, np.ndarray]
    paths: tuple[dict[int, np.ndarray], int] | None = None
    sbc: SBC | None = None
    nuts: list[NutsCheck] | None = None


@dataclass(frozen=True)
class Findings:
    """What was measured of a run.

    Attributes:
        title: of the report.
        family: with the contexts of the K environments.
        task: with the names of targets and states.
        labels: of the environments.
        held_out: predictions of the last round's episodes.
        posterior: None for an agent without one.
        note: what of the data was left out, for people.
    """

    title: str
    family: Family
    task: Task
    labels: list[str]
    held_out: HeldOut
    posterior: Posterior | None
    note: str = ""

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Of each environment, by its label."""
        qualities = self.posterior.quality if self.posterior else [None] * len(self.labels)
        uses = [one.uses_latent for one in self.held_out.quality if one.gap is not None]
        used = 2 * sum(uses) > len(uses)
        pairs = zip(qualities, self.held_out.quality, strict=True)
        verdicts = [judge_posterior(posterior, predictions, used) for posterior, predictions in pairs]
        return dict(zip(self.labels, verdicts, strict=True))

    @property
    def by_word(self) -> dict[Word, list[str]]:
        """The labels of the environments that have each verdict, the most serious first."""
        verdicts = self.verdicts
        words = [word for word in reversed(Word) if any(one.word == word for one in verdicts.values())]
        return {word: [name for name, one in verdicts.items() if one.word == word] for word in words}

    @property
    def numbers(self) -> list[list[str]]:
        """Of each environment the worst shift and width of the guide, k-hat, what it misses, and coverage, as text."""
        qualities = self.posterior.quality if self.posterior else [None] * len(self.labels)
        return [
            [
                *_of_guide(quality),
                f"{predicted.coverage:.0%}",
            ]
            for quality, predicted in zip(qualities, self.held_out.quality, strict=True)
        ]


def run_report(found: Findings) -> Report:
    """The report of a trained run."""
    sections = [_verdicts(found)]
    if found.posterior is not None:
        sections += [_guide(found, found.posterior), _latents(found, found.posterior)]
        if found.posterior.nuts:
            sections.append(_nuts(found, found.posterior.nuts))
        if found.posterior.sbc:
            sections.append(_sbc(found.posterior.sbc))
    return Report(found.title, [*sections, _predictions(found)])


def _verdicts(found: Findings) -> Section:
    words = [
        "Each environment has a posterior over its latent, given the network, and is judged separately. The network "
        "is fixed: the uncertainty of its weights shows only in the predictions."
    ]
    words += [found.note] if found.note else []
    words += [f"{word}: {MEANINGS[word]}" for word in found.by_word]
    rows = [[label, one.word, one.why] for label, one in found.verdicts.items()]
    return Section("Verdict", words, [Table([found.family.axis, "verdict", "why"], rows)])


def _guide(found: Findings, posterior: Posterior) -> Section:
    rows = []
    for label, quality in zip(found.labels, posterior.quality, strict=True):
        one = quality.importance
        rows.append(
            [
                label,
                number(one.k_hat),
                f"{one.effective:.0f} of {one.draws}",
                " ".join(f"{shift:+.2f}" for shift in one.shift),
                f"{one.covered:.0%}",
                " ".join(f"{spread:.2f}" for spread in one.spread),
                "-" if quality.missed is None else f"{quality.missed.share:.0%} +- {quality.missed.error:.0%}",
                f"{quality.divergence:.1f}",
                f"{quality.elpd:.2f} +- {quality.elpd_se:.2f}",
                f"{quality.unstable:.0%}",
            ]
        )
    head = [found.family.axis, "k-hat", "effective draws", "shift (sd)", "covers", "width", "elsewhere"]
    head += ["KL to the prior (nats)", "LOO, nats per transition", "share with Pareto k above the threshold"]
    threshold = posterior.quality[0].importance.threshold
    words = [
        "Draws of the guide are weighted by the model. Shift is that of the median, in the guide's standard "
        "deviations, and covers is the posterior probability of the guide's 90 % interval along it. Width is that of "
        "the guide's 90 % interval over that of the weighted draws, for each latent dimension: above 1 it is "
        f"over-dispersed. Below a k-hat of {threshold:.2f} the weights have a tail that can be relied upon; above it "
        "shift and width are rough, and above 1 nothing computed from the weights holds. None of these sees a mode "
        "that the guide misses: elsewhere is the share of the posterior that lies where the guide has no draws, as far "
        "as draws of the prior and of the other environments' guides reach. LOO is leave-one-out, corrected for the "
        "approximate posterior."
    ]
    tables = [Table(head, rows)]
    if posterior.latents.r_hat is not None:
        tables.append(_refits(found, posterior.latents, posterior.latents.r_hat))
        words.append(
            "The guide was fitted again from other initialisations, with the network fixed. R-hat compares the fits, "
            f"and should be at most {R_HAT}; for draws of one guide it would be meaningless."
        )
    k_hat = [quality.importance.k_hat for quality in posterior.quality]
    figure = draw_k_hat(found.labels, k_hat, threshold)
    figures = [Figure("k-hat", figure, "K-hat of each environment's guide.")]
    return Section("Is the guide near its posterior?", words, tables, figures)


def _refits(found: Findings, latents: Latents, r_hat: list[list[float]]) -> Table:
    rows = []
    for k, label in enumerate(found.labels):
        k_hats = " ".join(number(refit[k]) for refit in latents.refit_k_hat)
        rows.append([label, " ".join(f"{value:.2f}" for value in r_hat[k]), k_hats])
    return Table([found.family.axis, "R-hat of each dimension", "k-hat of each refit"], rows)


def _latents(found: Findings, posterior: Posterior) -> Section:
    e = posterior.tree["posterior"]["e"].sel(chain=0).to_numpy()
    latents, words = posterior.latents, []
    if latents.active is not None:
        ratios = ", ".join(f"{ratio:.1f}" for ratio in latents.active)
        used = sum(ratio > ACTIVE for ratio in latents.active)
        words.append(
            f"The posterior means of the environments lie {ratios} posterior standard deviations apart (standard "
            f"deviation over environments, by dimension); a dimension above {ACTIVE:g} is used: {used} of "
            f"{len(latents.active)}."
        )
    if latents.r_squared is not None and latents.rank_correlation is not None:
        fits = zip(np.atleast_1d(latents.r_squared), np.atleast_1d(latents.rank_correlation), strict=True)
        found_fits = [f"R^2 {r_squared:.3f} and rank correlation {rank:.2f}" for r_squared, rank in fits]
        if len(found_fits) > 1:
            found_fits = [f"{fit} for {name}" for fit, name in zip(found_fits, found.family.parameters, strict=True)]
        words.append(
            f"A linear probe from latent means to true contexts has {', '.join(found_fits)}. With few environments a "
            "probe fits easily: rely on contexts that were not used for it."
        )
    means = draw_latents(e.mean(0), e, found.family.train, found.family.axes, dict(posterior.others))
    region = "Latent means with 94 % regions, and the contexts that a linear probe predicts from them."
    figures = [
        Figure("latents", means, region),
        Figure("prior-posterior", draw_prior_posterior(posterior.tree), "Posterior and prior."),
    ]
    if e.shape[-1] > 1:
        figures.append(Figure("pairs", draw_pairs(posterior.tree), "Draws of the guide, by pairs of dimensions."))
    if posterior.paths is not None:
        paths, state = posterior.paths
        name = found.task.state_names[state] if found.task.state_names else f"state {state}"
        by_label = {found.labels[k]: path for k, path in paths.items()}
        caption = "Predicted trajectories under each environment's latent, from one start with the same actions."
        figures.append(Figure("traversal", draw_traversal(by_label, found.family.axis, name), caption))
    return Section("What the latents have learned", words, (), figures)


def _predictions(found: Findings) -> Section:
    rows = []
    for label, quality in zip(found.labels, found.held_out.quality, strict=True):
        rows.append(
            [
                label,
                str(quality.transitions),
                f"{quality.log_likelihood:.2f}",
                f"{quality.coverage:.0%}",
                f"{quality.coverage_by_horizon[-1]:.0%}",
                f"{quality.energy:.3f}",
                "-" if quality.gap is None else f"{quality.gap:+.3g} (p = {quality.gap_p:.2g})",
            ]
        )
    horizon = found.held_out.horizon
    head = [found.family.axis, "transitions", "log p, nats", "coverage of 90 %", f"{horizon} steps ahead"]
    head += ["energy score", "gain over permuted latents, nats"]
    names = found.task.target_names or tuple(f"target {j}" for j in range(found.task.target_dim))
    by_target = [
        [name, *(f"{quality.crps[j]:.4g}" for quality in found.held_out.quality)] for j, name in enumerate(names)
    ]
    words = [
        "Episodes of the round that this checkpoint was not trained on. The energy score is that of all targets, each "
        "divided by its standard deviation; it and the CRPS below (in each target's unit) are better when smaller. If "
        "permuted latents predict as well as the right ones, the network does not use them."
    ]
    figures = [
        Figure(
            "pit",
            draw_pit(dict(zip(found.labels, found.held_out.pit, strict=True))),
            "One-step PIT of each environment, over all targets: its ECDF less the diagonal. Above 0 on the left and "
            "below on the right: overconfident; the other way round: over-dispersed; on one side of 0: biased.",
        )
    ]
    ahead = {
        label: quality.coverage_by_horizon for label, quality in zip(found.labels, found.held_out.quality, strict=True)
    }
    figures.append(Figure("coverage", draw_coverage(ahead), "Coverage of 90 % intervals, many steps ahead."))
    if len(found.held_out.forecasts) == 1:
        fans = draw_fans(found.held_out.forecasts[0], found.labels, found.task.state_names or None)
        figures.append(Figure("fans", fans, "Predicted (50 and 90 %) and observed, in a typical window."))
    return Section(
        "How well it predicts",
        words,
        [Table(head, rows), Table(["CRPS, one step ahead", *found.labels], by_target)],
        figures,
    )


def _nuts(found: Findings, checks: Sequence[NutsCheck]) -> Section:
    rows = [
        [
            label,
            str(one.rows),
            f"{one.mean_error:.2f}",
            f"{one.sd_ratio:.2f}",
            "-" if one.correlation is None else f"{one.correlation:+.2f}",
            "-" if one.nuts_correlation is None else f"{one.nuts_correlation:+.2f}",
            number(one.k_hat),
            f"{one.r_hat:.3f}{'' if one.chains_met else ' (not mixed)'}",
        ]
        for label, one in zip(found.labels, checks, strict=True)
    ]
    head = [found.family.axis, "transitions", "mean error (sd)", "sd ratio", "correlation", "NUTS's", "k-hat", "R-hat"]
    words = [
        "A guide of the run's family and NUTS, both given the same few transitions of an environment. Where the chains "
        "of NUTS have not mixed, it is no reference."
    ]
    return Section("Comparison with NUTS", words, [Table(head, rows)])


def _sbc(sbc: SBC) -> Section:
    rows = [
        [str(dimension), f"{p:.3g}", shape]
        for dimension, (p, shape) in enumerate(zip(sbc.p_values, sbc.shape, strict=True))
    ]
    words = [
        f"{len(sbc.ranks)} environments were simulated from the prior, and the online belief was updated with the "
        "transitions of each. The rank of the true latent among draws of a calibrated belief is uniform. A belief that "
        "forgets on purpose, or with a temperature below 1, is over-dispersed."
    ]
    figure = Figure("sbc", draw_sbc(sbc), "Ranks of the true latents: their ECDF less the diagonal.")
    return Section("Simulation-based calibration", words, [Table(["latent", "p-value", "shape"], rows)], [figure])


def _of_guide(quality: PosteriorQuality | None) -> list[str]:
    """Shift and width of a guide, the worst of each, k-hat, and what it misses, as text."""
    if quality is None:
        return ["-"] * 4
    found, missed = quality.importance, quality.missed
    width = max(found.spread, key=lambda spread: abs(np.log(max(spread, 1e-300))))
    share = "-" if missed is None else f"{missed.share:.0%}"
    return [f"{found.distance:.2f}", f"{width:.2f}", number(found.k_hat), share]


def number(value: Any) -> str:
    """A k-hat as text: minus infinity is that of the exact posterior."""
    if value == float("-inf"):
        return "exact"
    return f"{value:.2f}"
