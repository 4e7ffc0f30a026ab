"""Runs whose training episodes have contexts of their own: what they need to act, and what is judged of them."""

from collections.abc import Sequence

from gymnasium.vector import VectorEnv

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Context, Family, find_family
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.drawn_family import DrawnFamily, draw_contexts
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, Guide
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.rollouts.training_environments import DrawnEnvironments
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import action_space, build_group, family_of_rounds, group_for
from pyro_dynamics.transitions import Transitions


def require_drawable(config: RunConfig) -> None:
    """Refuse contexts of their own for episodes where an agent could learn nothing from them.

    Raises:
        UserError: saying why.
    """
    if config.episode_contexts == "fixed":
        return
    reasons = {
        "specialist": "a specialist has an environment of its own, which would be one episode",
        "last-layer": "the last layer's prior is learned from environments with several episodes",
    }
    if config.agent in reasons:
        raise UserError(
            f"--episode-contexts {config.episode_contexts} is not for --agent {config.agent}: {reasons[config.agent]}; "
            "choose latent, generalist or oracle"
        )
    guide = GUIDES.find(config.guide)
    if (
        config.agent == "latent"
        and not guide.reads_transitions
        and (guide.match is Guide.match or not guide.has_density)
    ):
        raise UserError(
            f"--episode-contexts {config.episode_contexts} meets new environments in every round, whose latents are "
            f"inferred with the networks fixed, and --guide {config.guide} cannot be: choose amortized, or a Gaussian "
            "guide (diagonal, full-rank, low-rank, laplace)"
        )
    draw_contexts(find_family(config.family), config.episode_contexts, 1, config.seed, 0)


def drawn_environments(config: RunConfig, step_limit: float | None) -> DrawnEnvironments:
    """New environments for each round of a configuration, in contexts that its seed decides."""
    family = find_family(config.family)

    def contexts(m: int) -> tuple[Context, ...]:
        rounds = family_of_rounds(config, m)
        assert isinstance(rounds, DrawnFamily)
        return rounds.newest

    def make_envs(contexts: Sequence[Context]) -> VectorEnv:
        environments = family.make_vector(contexts, config.steps)
        limit_steps(environments, step_limit)
        return environments

    def grown(m: int) -> AgentGroup:
        return build_group(config, family_of_rounds(config, m), action_space(family, config.steps))

    return DrawnEnvironments(contexts, make_envs, lambda group, some: group_for(group, family, some), grown)


def newest_environments(
    folder: RunFolder, family: DrawnFamily, group: AgentGroup, checkpoint: int | None
) -> tuple[int, Family, AgentGroup, Transitions, Transitions]:
    """Of a run whose every episode was a new environment, those of the checkpoint's round.

    The networks were not trained on them. The guide is fitted to the first half of each episode, and the second is
    what was held out.

    Returns:
        The round m, these environments, agents with beliefs about them, and the first and second halves.

    Raises:
        UserError: if nothing was trained yet, or the transitions are not those of such a run.
    """
    m = folder.last_round if checkpoint is None else checkpoint
    rounds = folder.transitions()
    if not m or m >= len(rounds):
        raise UserError(f"{folder.path} has no trained round to judge: resume it with train --resume {folder.path}")
    count, where = family.in_a_round, f"{folder.path}, round {m}"
    rows = rounds[m].of(range(len(family.train) - count, len(family.train)))
    rows.require_of(count, group.agents[0].task.state_dim, group.agents[0].task.action_dim, where)
    rows.require_finite(where)
    length = rows.environment.bincount(minlength=count)
    early = rows.step < (length // 2)[rows.environment]
    seen, held_out = rows.select(early), rows.select(~early)
    fresh = group_for(group, family, family.newest)
    fresh.infer_new(seen, 0)
    return m, family.of_newest(), fresh, seen, held_out
