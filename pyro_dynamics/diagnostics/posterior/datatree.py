"""The posterior as an ArviZ DataTree: named dimensions, units and settings, ready for every function of ArviZ."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.beliefs.member_mixture import own_log_prob
from pyro_dynamics.inference.log_joint import log_joint_of_draws, whole_batch
from pyro_dynamics.inference.user_model import has_default_forward, has_default_prior, has_population, population
from pyro_dynamics.observation import gaussian_parameters
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions
from pyro_dynamics.version import __version__

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

ROWS_AT_ONCE = 10_000
"""Network evaluations of one forward pass: more leave the processor's cache, and take up to 1.7 times as long."""
SAMPLE = ("chain", "draw")


def to_datatree(
    agent: Agent | Sequence[Agent],
    transitions: Transitions,
    draws: int = 1000,
    *,
    contexts: Sequence[Any] | None = None,
    pointwise: int = 200,
    predictive_draws: int = 200,
    seed: int = 0,
    attrs: Mapping[str, Any] | None = None,
    on_rows: Callable[[int], object] | None = None,
    online: bool = False,
) -> "DataTree":
    """The posterior q(e), and all that ArviZ needs to judge it by, as one DataTree.

    ``posterior`` and ``prior`` hold ``e``; ``sample_stats`` holds ``log_p`` = log p(e_k, data_k), up to a constant,
    and ``log_q`` = log q(e_k) at the draws, for each environment by itself, in nats; and, of a model
    with a prior of its own, ``log_prior`` = log p(e_k). ``log_likelihood``,
    ``posterior_predictive`` and ``observed_data`` hold ``delta``, what the network predicts (the task's targets), for
    some transitions of each environment, and ``constant_data`` which environment each is of, its state, action and
    step, and the true ``context`` of each environment where it is known.

    The log-likelihood of a transition is the mean over members, as in the ELBO (the paper's appendix B), so that
    log p(e_k) and the sum over ALL transitions of environment k are ``log_p``.

    Args:
        agent: an agent with a latent; or several that share one network, their guides fitted independently (refits):
            they become chains.
        transitions: what the posterior was fitted to.
        draws: S, from each posterior.
        contexts: the true hidden parameter of each environment; they name the environments.
        pointwise: how many transitions of each environment, evenly spread, go into ``log_likelihood`` and the groups
            beside it.
        predictive_draws: draws in ``posterior_predictive``, the largest group.
        seed: names the random streams.
        attrs: what else the tree's attributes shall say, such as units and settings; strings and numbers.
        on_rows: called during the work with the number of further transitions for which ``log_p`` is done.
        online: the environments are new ones: beliefs began at the prior of new environments, and where each member has
            its own belief, a draw is of one member, and so are ``log_p``, ``log_q`` and ``log_likelihood``.

    Raises:
        UserError: if the agent has no latent or its guide no density, or if an environment has no transitions.
    """
    from xarray import Dataset, DataTree  # here, as it takes long

    agents = list(agent) if isinstance(agent, Sequence) else [agent]
    first = agents[0]
    refuse_without_posterior(first)
    kept = evenly_spread(transitions.environment, first.environments, pointwise)
    shown = transitions.select(kept)
    generator = torch.Generator().manual_seed(seed)
    report = on_rows or (lambda rows: None)
    chains = [_chain(one, transitions, kept, draws, predictive_draws, generator, report, online) for one in agents]
    e, log_p, log_q, log_likelihood, predicted = (np.stack(part) for part in zip(*chains, strict=True))
    with drawing_from(generator):
        begins = population(first.model) if online else first.model.prior()
        prior = begins.sample((draws,)).numpy()[None]

    stats = {"log_p": log_p, "log_q": log_q}
    if not has_default_prior(first.model) or (online and has_population(first.model)):
        stats["log_prior"] = begins.log_prob(torch.from_numpy(e)).numpy()
    labels = np.array(environment_labels(contexts, first.environments))
    latents = {"environment": labels, "latent": np.arange(first.latent_dim)}
    rows = {"transition": kept.numpy()}
    targets = first.task.targets(shown.state, shown.next_state).numpy()
    known = len(first.task.target_names) == targets.shape[1]
    names = {"target": np.array(first.task.target_names)} if known else {}
    constant: dict[str, Any] = {
        "transition_environment": ("transition", labels[shown.environment.numpy()]),
        "step": ("transition", shown.step.numpy()),
        "state": (("transition", "state_dim"), shown.state.numpy()),
        "action": (("transition", "action_dim"), shown.action.numpy()),
    }
    if contexts is not None:
        values = np.array(list(contexts))
        constant["context"] = (("environment", "parameter")[: values.ndim], values)
    by_environment, by_latent = (*SAMPLE, "environment"), (*SAMPLE, "environment", "latent")
    groups = {
        "posterior": _dataset({"e": (by_latent, e)}, latents),
        "prior": _dataset({"e": (by_latent, prior)}, latents),
        "sample_stats": _dataset(
            {name: (by_environment, value) for name, value in stats.items()}, {"environment": labels}
        ),
        "log_likelihood": _dataset({"delta": ((*SAMPLE, "transition"), log_likelihood)}, rows),
        "posterior_predictive": _dataset({"delta": ((*SAMPLE, "transition", "target"), predicted)}, rows | names),
        "observed_data": Dataset({"delta": (("transition", "target"), targets)}, rows | names),
        "constant_data": Dataset(constant, {"environment": labels, **rows}),
    }
    own = online and first.belief.members > 1
    of_rows = f"{'' if own else 'the mean over members of '}log p(s' | s, a, e)"
    of_rows += " by the draw's own member, and a constant for each" if own else ""
    tree = DataTree.from_dict(groups)
    tree.attrs = {
        "inference_library": "pyro_dynamics",
        "inference_library_version": __version__,
        "guide": type(first.guide).__name__,
        "log_p": f"log {'p(e)' if online else 'N(e; 0, I)'} + sum over all transitions of {of_rows}, in nats",
        "transitions": len(transitions),
        **(attrs or {}),
    }
    return tree


def with_parameters(tree: "DataTree", trained_means: np.ndarray, family: Family) -> "DataTree":
    """The tree with the hidden parameters, each with its unit, beside the draws of ``e`` in posterior and prior.

    Args:
        tree: from :func:`to_datatree`.
        trained_means: latent means of the environments that were trained on, ``[K, d]``, which a linear probe reads.
        family: of these environments; nothing is added where its contexts are names, or one alone.
    """
    if family.decodable:
        probe = ContextProbe(trained_means, family.train)
        for group in ("posterior", "prior"):
            dataset = tree[group].to_dataset()
            decoded = probe.draws(dataset["e"].values, axis=1)
            columns = decoded[..., None] if decoded.ndim == dataset["e"].ndim - 1 else decoded
            for index, (name, unit) in enumerate(zip(family.parameters, family.units, strict=True)):
                dataset[name] = (dataset["e"].dims[:-1], columns[..., index], {"units": unit})
            tree[group].dataset = dataset
    return tree


def of_environment(tree: "DataTree", environment: str) -> "DataTree":
    """The part of a tree that is about one environment: what ``arviz_stats.loo_approximate_posterior`` needs.

    Each environment has a posterior of its own, given its own transitions, so that weights of all environments
    together would say nothing of any.

    Args:
        tree: from :func:`to_datatree`.
        environment: its label.
    """
    from xarray import DataTree  # here, as it takes long

    rows = tree["constant_data"]["transition_environment"].to_numpy() == environment

    def part(group: "Dataset") -> "Dataset":
        if "environment" in group.dims:
            group = group.sel(environment=environment, drop=True)
        return group.isel(transition=rows) if "transition" in group.dims else group

    return DataTree.from_dict({name: part(group.to_dataset()) for name, group in tree.children.items()})


def refuse_without_posterior(agent: Agent) -> None:
    """Refuse, in words, an agent whose latents have no posterior.

    Raises:
        UserError: if it has no latent, or its guide no density.
    """
    if not agent.latent_dim:
        raise UserError("this agent has no latent, and so no posterior: only its predictions can be judged")
    if not agent.guide.latent_dim:
        raise UserError(
            "the last layer's posterior is exact in a linear model of its own, and no guide of a latent: only its "
            "predictions can be judged"
        )
    if agent.guide.context_given:
        raise UserError(
            "this agent is given the true context, and has no posterior: only its predictions can be judged"
        )
    if not agent.guide.has_density:
        raise UserError(f"{type(agent.guide).__name__} has no density: there is no posterior to judge")


def environment_labels(contexts: Sequence[Any] | None, environments: int) -> list[str]:
    """A name for each environment: its context, numbered where two are alike; its number where none is known."""
    if contexts is None:
        return [str(k) for k in range(environments)]
    names = [label(context) for context in contexts]
    return [f"{name} ({k})" if names.count(name) > 1 else name for k, name in enumerate(names)]


def evenly_spread(environment: Tensor, environments: int, count: int) -> Tensor:
    """Indices of up to ``count`` rows of each environment, from first to last, in the order of the rows.

    Raises:
        UserError: if an environment has no row.
    """
    parts = []
    for k in range(environments):
        rows = (environment == k).nonzero().squeeze(1)
        if not len(rows):
            raise UserError(f"there are no transitions of environment {k}: its posterior cannot be judged")
        parts.append(rows[torch.linspace(0, len(rows) - 1, min(count, len(rows))).long()])
    return torch.cat(parts).sort().values


@torch.no_grad()
def draw_log_likelihood(
    agent: Agent, data: Transitions, latents: Tensor, own: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """The mean over members of log p(s' | s, a, e_k) of every transition under every draw, a few rows at a time.

    Args:
        agent: has ``log_likelihood`` and ``model.likelihood.members``.
        data: N transitions.
        latents: draws of every environment's latent, ``[S, K, d]``.
        own: of each draw its own member's alone: they come in M equal blocks in the members' order.

    Yields:
        Indices of rows ``[B]``, and their log-likelihoods ``[S, B]`` in nats.
    """
    members = agent.model.likelihood.members
    size = max(1, ROWS_AT_ONCE // (len(latents) * (1 if own else members)))
    if own:
        latents = latents.unflatten(0, (members, -1)).transpose(0, 1)
    for rows in torch.arange(len(data)).split(size):
        part = data.select(rows)
        value = agent.log_likelihood(part.state, part.action, part.next_state, latents[..., part.environment, :])
        yield rows, value.transpose(0, 1).flatten(0, 1) if own else value.mean(1)


def levelled(log_p: np.ndarray, log_q: np.ndarray, members: int) -> np.ndarray:
    """log p of M blocks of draws, each of its own member's posterior, as of one equal mixture of these posteriors.

    Each block's importance weights then have the same mean, as of M normalised posteriors with equal weights.

    Args:
        log_p: each member's, up to a constant of its own, ``[S, ...]`` in nats.
        log_q: of the same draws under the belief of their member, ``[S, ...]``.
        members: M.
    """
    ratio = (log_p - log_q).reshape(members, -1, *log_p.shape[1:])
    peak = ratio.max(1, keepdims=True)
    mean = peak + np.log(np.exp(ratio - peak).mean(1, keepdims=True))
    level: np.ndarray = log_p - np.broadcast_to(mean, ratio.shape).reshape(log_p.shape)
    return level


@torch.no_grad()
def log_joint_of_environments(
    agent: Agent,
    data: Transitions,
    latents: Tensor,
    on_rows: Callable[[Tensor, Tensor], object] | None = None,
    online: bool = False,
) -> Tensor:
    """log p(e_k, data_k) of every environment at draws ``[S, K, d]``: ``[S, K]``, in nats.

    Args:
        agent: the model.
        data: N transitions of its K environments.
        latents: the draws.
        on_rows: called with indices of rows ``[B]`` and their log-likelihoods ``[S, B]``, a few at a time.
        online: the environments are new ones, and each member may have its own belief about them.
    """
    # The sums go over thousands of transitions: rounding must stay far below a nat.
    prior = population(agent.model) if online else agent.model.prior()
    log_p = prior.log_prob(latents).double()
    for rows, value in draw_log_likelihood(agent, data, latents, online and agent.belief.members > 1):
        log_p.index_add_(1, data.environment[rows], value.double())
        if on_rows is not None:
            on_rows(rows, value)
    if has_default_forward(agent.model):
        return log_p
    inputs, targets = agent.task.inputs(data.state, data.action), agent.task.targets(data.state, data.next_state)
    everything = whole_batch(inputs, targets, data.environment, agent.model.likelihood.members)
    return log_joint_of_draws(agent.model, everything, latents).double()


@torch.no_grad()
def _chain(
    agent: Agent,
    data: Transitions,
    kept: Tensor,
    draws: int,
    predictive_draws: int,
    generator: torch.Generator,
    on_rows: Callable[[int], object],
    online: bool,
) -> tuple[np.ndarray, ...]:
    """Draws ``[S, K, d]``, log_p and log_q ``[S, K]``, log_likelihood ``[S, n]`` and predictions ``[P, n, T]``."""
    with drawing_from(generator):
        posterior = agent.posterior()
        members = agent.belief.members if online else 1
        latents = posterior.sample((-(-draws // members) * members,))
    pointwise = []  # of the kept rows alone: all of them would not fit into the memory of a long run

    def keep(rows: Tensor, value: Tensor) -> None:
        pointwise.append(value[:, torch.isin(rows, kept)])
        on_rows(len(rows))

    log_p = log_joint_of_environments(agent, data, latents, keep, online).numpy()
    few = latents[torch.linspace(0, len(latents) - 1, min(predictive_draws, len(latents))).long()]
    predicted = sample_targets(agent, data.select(kept), few, generator)
    log_q = (own_log_prob(posterior, latents) if online else posterior.log_prob(latents)).double().numpy()
    log_p = levelled(log_p, log_q, members) if members > 1 else log_p
    return latents.numpy(), log_p, log_q, torch.cat(pointwise, 1).numpy(), predicted.numpy()


def sample_targets(agent: Agent, data: Transitions, latents: Tensor, generator: torch.Generator) -> Tensor:
    """Draws of what the network predicts, ``[S, n, T]``: a member at random for each draw ``[S, K, d]`` and row."""
    out = []
    with drawing_from(generator):
        for latent in latents:  # one draw at a time: this is never large
            predicted = agent.observation(data.state, data.action, latent[None, data.environment])
            members, rows = torch.randint(predicted.batch_shape[1], (len(data),)), torch.arange(len(data))
            if gaussian := gaussian_parameters(predicted):
                location, scale = (part[0, members, rows] for part in gaussian)
                out.append(torch.normal(location, scale))
            else:
                out.append(predicted.sample()[0, members, rows])
    return torch.stack(out)


def _dataset(variables: Mapping[str, Any], coords: Mapping[str, Any]) -> "Dataset":
    """A dataset whose chains and draws are numbered."""
    from xarray import Dataset

    (chains, draws) = next(iter(variables.values()))[1].shape[:2]
    return Dataset(variables, {"chain": np.arange(chains), "draw": np.arange(draws), **coords})
