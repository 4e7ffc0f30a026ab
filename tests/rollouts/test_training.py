"""A latent that is learned is used: the collapse gate on a small real run."""

import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.collapse import collapse_gap
from pyro_dynamics.environments import find_family
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.rollouts.rollout import rollout, uniform_policy
from pyro_dynamics.rollouts.training import record
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_agent, group_for
from pyro_dynamics.transitions import Transitions

FAMILY = find_family("pendulum-gravity")


def random_episodes(seed: int) -> Transitions:
    envs = FAMILY.make_vector(FAMILY.train, 100)
    space = envs.single_action_space
    policy = uniform_policy(space, 5, torch.Generator().manual_seed(seed))
    return record(list(rollout(envs, policy, range(seed, seed + 5))), torch.arange(5))


def trained_agent(agent: str) -> Agent:
    config = RunConfig(
        agent=agent,  # type: ignore[arg-type]
        ensemble=EnsembleConfig(members=2, hidden=(32, 32), weight_decay=(1e-5,) * 3),
        offline=OfflineConfig(learning_rate=3e-3, guide_learning_rate=3e-3, epochs=80),
    )
    torch.manual_seed(0)
    made = build_agent(config, FAMILY, FAMILY.make_vector(FAMILY.train[:1], 5).single_action_space, 5)
    made.train(random_episodes(0), torch.Generator().manual_seed(0))
    return made


def test_shuffled_latents_predict_worse_and_an_unseen_gravity_is_found() -> None:
    agent = trained_agent("latent")
    held_out = random_episodes(100)
    right, wrong = collapse_gap(agent, held_out)
    assert wrong is not None
    assert (right - wrong > 0.5).all()
    generalist, none = collapse_gap(trained_agent("generalist"), held_out)
    assert none is None
    assert right.mean() > generalist.mean() + 0.3

    # Streaming through a gravity between two that were trained on: the belief lands between theirs.
    new = group_for(AgentGroup([agent], [range(5)]), FAMILY, [5.0]).agents[0]
    envs = FAMILY.make_vector([5.0], 20)
    space = envs.single_action_space
    policy = uniform_policy(space, 1, torch.Generator().manual_seed(3))
    draws = torch.Generator().manual_seed(4)
    before = new.posterior().stddev
    for step in rollout(envs, policy, [7]):
        new.observe(step.state, step.action, step.next_state, torch.tensor([0]), draws)
    direction = agent.posterior().mean[4] - agent.posterior().mean[0]
    low, here, high = (
        float(e @ direction) for e in (agent.posterior().mean[1], new.posterior().mean[0], agent.posterior().mean[2])
    )
    assert low < here < high
    assert (new.posterior().stddev < 0.5 * before).all()
