"""What a run has learned about each environment: the measures that :mod:`~pyro_dynamics.diagnostics.verdict` judges."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.posterior.datatree import log_joint_of_environments
from pyro_dynamics.diagnostics.posterior.importance import Importance, importance
from pyro_dynamics.diagnostics.posterior.missed_mass import Missed, defensive, missed_mass, proposals
from pyro_dynamics.environments import Context
from pyro_dynamics.inference.gaussians import moments
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions

if TYPE_CHECKING:
    from xarray import DataTree

ACTIVE = 1.0
"""Ratio of the spread of posterior means over environments to their own standard deviations above which a dimension
counts as used. Burda et al. (2016) ask for a variance of means above 0.01, which takes latents to be as large as the
prior is wide; online, a network may well use a scale of a tenth of that with a hundredth of the uncertainty."""


@dataclass(frozen=True)
class PosteriorQuality:
    """What the model says about the guide, in one environment.

    Attributes:
        importance: k-hat, effective draws, and the shift of the mean under the weights.
        divergence: KL(q || p(e)) from the prior, in nats: how much was learned.
        elpd: leave-one-out log predictive density of a transition, corrected for the approximate posterior, in nats;
            a mean over the transitions in the tree.
        elpd_se: its standard error, transitions taken as independent.
        unstable: share of those transitions whose own k-hat is above the threshold: LOO cannot be relied upon there.
        missed: how much of the posterior lies where the guide has no draws; None where that was not looked for.
    """

    importance: Importance
    divergence: float
    elpd: float
    elpd_se: float
    unstable: float
    missed: Missed | None = None


def posterior_quality(tree: "DataTree", chain: int = 0) -> list[PosteriorQuality]:
    """K-hat, divergence and approximate-posterior LOO of every environment in the tree, for one of its chains."""
    from xarray import DataTree  # here, as it takes long

    from pyro_dynamics.diagnostics.posterior.datatree import of_environment

    found = []
    for label in tree["posterior"].coords["environment"].to_numpy():
        one = of_environment(tree, label)
        stats = one["sample_stats"].to_dataset().sel(chain=[chain])
        e = one["posterior"]["e"].sel(chain=chain).to_numpy()
        log_p, log_q = stats["log_p"], stats["log_q"]
        if "log_prior" in stats:  # the model's own
            prior = stats["log_prior"].to_numpy()[0].astype(float)
        else:
            prior = -0.5 * np.square(e.astype(float)).sum(-1) - 0.5 * e.shape[-1] * math.log(2 * math.pi)
        log_likelihood = DataTree.from_dict(
            {"log_likelihood": one["log_likelihood"].to_dataset().sel(chain=[chain]).astype(float)}
        )
        elpd, elpd_se, unstable = _leave_one_out(log_likelihood, log_p, log_q)
        found.append(
            PosteriorQuality(
                importance(log_p.to_numpy()[0], log_q.to_numpy()[0], e),
                float((log_q.to_numpy()[0] - prior).mean()),
                elpd,
                elpd_se,
                unstable,
            )
        )
    return found


def missed_by_guides(
    agent: Agent,
    data: Transitions,
    tree: "DataTree",
    names: Sequence[str],
    seed: int,
    on_rows: Callable[[int], object] = lambda rows: None,
) -> list[Missed | None]:
    """How much of each environment's posterior lies where its guide has no draws.

    Args:
        agent: with the guide over K environments.
        data: what the posteriors are of.
        tree: from :func:`~pyro_dynamics.diagnostics.posterior.datatree.to_datatree`, with the guide's draws.
        names: of the K environments, for people.
        seed: names the random streams.
        on_rows: called during the work with the number of further transitions that are done.
    """
    rng = np.random.default_rng(seed)
    own = tree["posterior"]["e"].sel(chain=0).to_numpy().astype(float)  # [S, K, d]
    with drawing_from(torch.Generator().manual_seed(seed)), torch.no_grad():
        mean, covariance = moments(agent.model.prior())
    gaussians = [(draws.mean(0), np.atleast_2d(np.cov(draws.T))) for draws in own.swapaxes(0, 1)]
    prior = mean[0].double().numpy(), covariance[0].double().numpy()
    made, places = [], []
    for k in range(agent.environments):
        others = [one for j, one in enumerate(gaussians) if j != k]
        places.append(proposals(prior, others, [name for j, name in enumerate(names) if j != k]))
        made.append(defensive(own[:, k], places[k], rng))
    latents = torch.from_numpy(np.stack([one.draws for one in made], 1)).float()
    log_p = log_joint_of_environments(agent, data, latents, lambda rows, _: on_rows(len(rows))).numpy()
    return [missed_mass(log_p[:, k], one, own[:, k], places[k]) for k, one in enumerate(made)]


def _leave_one_out(tree: "DataTree", log_p: object, log_q: object) -> tuple[float, float, float]:
    """Mean elpd of a transition, its standard error, and the share of transitions with too high a k-hat."""
    import arviz_stats  # here, as it takes long

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its warning is about k-hat, which is reported elsewhere
            loo = arviz_stats.loo_approximate_posterior(tree, log_p, log_q, pointwise=True, var_name="delta")
    except ValueError:  # ratios that are all alike: the exact posterior, of which LOO has nothing to correct
        loo = arviz_stats.loo(tree, pointwise=True, var_name="delta")
    count = loo.n_data_points
    return float(loo.elpd) / count, float(loo.se) / count, float((loo.pareto_k > loo.good_k).mean())


@dataclass(frozen=True)
class Latents:
    """What the latents of K environments say together.

    Attributes:
        active: standard deviation over environments of the posterior means, over the root mean square of the posterior
            standard deviations, for each latent dimension; None for one environment.
        rank_correlation: Spearman's, of the contexts read by a linear probe and the true ones, a list where there are
            several hidden parameters; None where contexts are no numbers or fewer than three.
        r_squared: of the same probe.
        r_hat: rank-normalised split R-hat of the independent refits, for each environment and dimension ``[K][d]``;
            None without refits. Draws of ONE guide are independent by construction: their R-hat is 1 however wrong the
            guide is.
        refit_k_hat: k-hat of each refit in each environment, ``[refits][K]``.
    """

    active: list[float] | None
    rank_correlation: float | list[float] | None
    r_squared: float | list[float] | None
    r_hat: list[list[float]] | None
    refit_k_hat: list[list[float]]


def look_at_latents(tree: "DataTree", contexts: Sequence[Context]) -> Latents:
    """Measures over all environments of a tree.

    Args:
        tree: from :func:`~pyro_dynamics.diagnostics.posterior.datatree.to_datatree`; refits are its chains after the
            first.
        contexts: the true hidden parameters.
    """
    e = tree["posterior"]["e"]
    means, scales = (part.to_numpy() for part in (e.sel(chain=0).mean("draw"), e.sel(chain=0).std("draw")))
    probe = None
    if len(contexts) >= 3 and not isinstance(contexts[0], str):
        probe = ContextProbe(means, contexts)
    chains = e.sizes["chain"]
    r_hat = None
    if chains > 1:
        import arviz_stats  # here, as it takes long

        r_hat = arviz_stats.rhat(e.to_dataset())["e"].to_numpy().tolist()
    k_hat = [[quality.importance.k_hat for quality in posterior_quality(tree, chain)] for chain in range(1, chains)]
    return Latents(
        active=(means.std(0, ddof=1) / np.sqrt(np.square(scales).mean(0))).tolist() if len(means) > 1 else None,
        rank_correlation=None if probe is None else probe.rank_correlation,
        r_squared=None if probe is None else probe.r_squared,
        r_hat=r_hat,
        refit_k_hat=k_hat,
    )
