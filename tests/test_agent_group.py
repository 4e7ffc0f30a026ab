from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.posterior.datatree import refuse_without_posterior
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_group, group_for, nearest

FAMILY = find_family("pendulum-gravity")


def make_group(agent: str, hidden: int = 8) -> AgentGroup:
    config = RunConfig(
        agent=agent,  # type: ignore[arg-type]
        ensemble=EnsembleConfig(members=2, hidden=(hidden,), weight_decay=(0.0, 0.0)),
    )
    envs = FAMILY.make_vector(FAMILY.train[:1], 5)
    return build_group(config, FAMILY, envs.single_action_space)


@pytest.mark.parametrize(
    ("agent", "count", "latent_dim"), [("latent", 1, 2), ("generalist", 1, 0), ("specialist", 5, 0)]
)
def test_each_kind_of_agent_covers_all_environments(agent: str, count: int, latent_dim: int) -> None:
    group = make_group(agent)
    assert len(group.agents) == count
    assert sorted(k for share in group.shares for k in share) == [0, 1, 2, 3, 4]
    mean, scale = group.beliefs()
    assert mean.shape == scale.shape == (5, latent_dim)


def test_rows_go_to_the_agent_of_their_environment_and_come_back_in_order() -> None:
    group = make_group("specialist")
    for index, agent in enumerate(group.agents):

        def act(state: Tensor, local: Tensor, generator: torch.Generator, index: int = index) -> Tensor:
            assert (local == 0).all()
            return torch.stack([state[:, 0], torch.full((len(state),), float(index))], 1)

        agent.act = act  # type: ignore[assignment,method-assign]
    environment = torch.tensor([3, 0, 4, 0, 1])
    actions = group.act(torch.arange(5.0).unsqueeze(1), environment, torch.Generator())
    assert actions[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert actions[:, 1].tolist() == environment.tolist()


def test_a_checkpoint_of_another_architecture_is_refused_in_words() -> None:
    group = make_group("latent")
    others: list[dict[str, Any]] = [make_group("latent", hidden=9).state_dict(), make_group("specialist").state_dict()]
    for state in (*others, {}, {"agents": [{}]}):
        with pytest.raises(UserError, match="checkpoint"):
            group.load_state_dict(state)
    group.load_state_dict(make_group("latent").state_dict())


def test_a_new_environment_gets_the_same_dynamics_and_a_fresh_belief() -> None:
    group = make_group("latent")
    new = group_for(group, FAMILY, [3.0, 5.0])
    assert new.agents[0].model.likelihood is group.agents[0].model.likelihood
    mean, scale = new.beliefs()
    assert torch.equal(mean, torch.zeros(2, 2))
    assert torch.allclose(scale, torch.ones(2, 2))


def test_a_specialist_meets_the_context_nearest_to_its_own() -> None:
    assert nearest(FAMILY, 10.9) == 4
    assert nearest(FAMILY, 2.9) == 0
    crippled = find_family("halfcheetah-crippled")
    assert nearest(crippled, "front-foot") == 0
    assert nearest(crippled, "back-shin") == 2


def test_a_checkpoint_of_fewer_agents_is_refused() -> None:
    with pytest.raises(UserError, match="the checkpoint does not hold the 5 agents of the configuration"):
        make_group("specialist").load_state_dict(make_group("latent").state_dict())


def test_an_oracle_has_no_posterior_to_judge() -> None:
    with pytest.raises(UserError, match="this agent is given the true context, and has no posterior"):
        refuse_without_posterior(make_group("oracle").agents[0])
