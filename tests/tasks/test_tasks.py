import numpy as np
import pytest
import torch

from pyro_dynamics import FAMILIES, Family

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@every_family
def test_reward_and_end_equal_the_environments_own_over_200_random_steps(family: Family) -> None:
    task = family.task()
    env = family.make(family.train[1], 1000)
    env.action_space.seed(0)
    state, _ = env.reset(seed=0)
    for _ in range(200):
        action = env.action_space.sample()
        next_state, reward, terminated, *_ = env.step(action)
        s, a, s_next = (torch.as_tensor(x, dtype=torch.float64) for x in (state, action, next_state))
        assert np.isclose(float(task.reward(s, a, s_next)), float(reward), rtol=1e-4, atol=1e-4)
        assert bool(task.terminated(s, a, s_next)) == terminated
        state = env.reset()[0] if terminated else next_state


@every_family
def test_next_state_inverts_targets_and_shapes_are_as_declared(family: Family) -> None:
    task = family.task()
    env = family.make(family.train[0], 1000)
    env.action_space.seed(0)
    states = [env.reset(seed=0)[0]] + [env.step(env.action_space.sample())[0] for _ in range(50)]
    s = torch.as_tensor(np.array(states[:-1]), dtype=torch.float64)
    s_next = torch.as_tensor(np.array(states[1:]), dtype=torch.float64)
    target = task.targets(s, s_next)
    assert s.shape == (50, task.state_dim)
    assert target.shape == (50, task.target_dim)
    assert task.features(s).shape == (50, task.feature_dim)
    assert task.inputs(s, s.new_zeros(50, task.action_dim)).shape == (50, task.input_dim)
    assert torch.allclose(task.next_state(s, target), s_next, atol=1e-6)
