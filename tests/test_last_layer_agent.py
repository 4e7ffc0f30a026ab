"""The agent that infers its last layer: against a known linear system, and through the commands' own path."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from scipy.stats import norm

import pyro_dynamics as pd
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.control import ICEMConfig, MPCConfig
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.posterior.datatree import refuse_without_posterior
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.inference.beliefs import PowerConfig
from pyro_dynamics.last_layer_agent import LastLayerAgent
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.runners import adapt, calibrate, compare, diagnose, evaluate, track
from pyro_dynamics.runners.common.configuration import CHANGEPOINT_KALMAN, OnlineConfig, RunConfig
from pyro_dynamics.runners.common.factory import build_group, group_for
from pyro_dynamics.tasks import BoxTask
from pyro_dynamics.transitions import Transitions

GAINS = (-2.0, -1.0, 1.0, 2.0)


def reward(state: torch.Tensor, action: torch.Tensor, next_state: torch.Tensor) -> torch.Tensor:
    return -next_state[..., 0].abs()


class Line:
    """A point on a line that an action moves by its gain, which may be negative."""

    observation_space = Box(-100.0, 100.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)


def family() -> Family:
    return Family("line", Line, "gain", "m", train=GAINS, test=(-1.5, 1.5), task=lambda: BoxTask(Line(), reward))  # type: ignore[arg-type]


def trained(online: OnlineConfig = CHANGEPOINT_KALMAN) -> AgentGroup:
    """Trained on 100 steps of each gain: s' = s + gain a + 0.01 eps."""
    config = RunConfig(
        agent="last-layer",
        ensemble=EnsembleConfig(members=2, hidden=(16,), weight_decay=(0.0, 0.0)),
        offline=OfflineConfig(1e-2, 1e-2, batch_size=64, min_steps=300),
        online=online,
    )
    group = build_group(config, family(), Line.action_space)
    draws = torch.Generator().manual_seed(0)
    environment = torch.arange(len(GAINS)).repeat(100)
    state, action = (6 * torch.rand(400, 1, generator=draws) - 3 for _ in range(2))
    action = action / 3
    move = torch.tensor(GAINS)[environment, None] * action + 0.01 * torch.randn(400, 1, generator=draws)
    step = torch.arange(100).repeat_interleave(len(GAINS))
    data = Transitions(state, action, state + move, torch.zeros(400), environment, step)
    group.train(data, draws, lambda *_: None)
    return group


@pytest.fixture(scope="module")
def group() -> AgentGroup:
    return trained()


def learn(agents: AgentGroup, gain: float, steps: int, seed: int = 1) -> torch.Tensor:
    """Random steps under one gain; gives log p of each before it was seen, in nats, ``[steps]``."""
    draws, here, found = torch.Generator().manual_seed(seed), torch.tensor([0]), []
    for _ in range(steps):
        state, action = 4 * torch.rand(1, 1, generator=draws) - 2, 2 * torch.rand(1, 1, generator=draws) - 1
        row = state, action, state + gain * action + 0.01 * torch.randn(1, 1, generator=draws), here
        found.append(agents.log_predictive(*row, draws))
        agents.observe(*row, draws)
    return torch.cat(found)


@pytest.mark.parametrize("gain", [-1.5, 1.5])
def test_a_gain_never_seen_is_learned_decoded_and_planned_with(group: AgentGroup, gain: float) -> None:
    here = group_for(group, family(), [gain])
    surprise = learn(here, gain, 30)
    assert surprise[-10:].mean() > surprise[:2].mean() + 1
    probe = ContextProbe(group.beliefs()[0].numpy(), GAINS)
    mean, sd = here.beliefs()
    decoded, spread = float(probe.predict(mean.numpy())[0]), float(probe.spread(sd.numpy())[0])
    assert decoded == pytest.approx(gain, abs=0.3)
    assert abs(decoded - gain) < 4 * spread
    for state in (-1.0, 1.0):  # one step to 0, in the direction that the sign of the gain asks for
        here.reset()
        action = here.act(torch.tensor([[state]]), torch.tensor([0]), torch.Generator().manual_seed(0))
        assert float(action) * gain * state < 0
        assert abs(state + gain * float(action)) < 0.6


def test_exact_predictions_are_those_of_many_draws(group: AgentGroup) -> None:
    here = group_for(group, family(), [1.5])
    learn(here, 1.5, 2)
    agent = here.agents[0]
    assert isinstance(agent, LastLayerAgent)
    state, action, after = (torch.tensor([[value]]) for value in (0.5, 0.7, 1.6))
    torch.manual_seed(0)
    latents = agent.posterior().sample(torch.Size([20_000]))
    log_p = agent.log_likelihood(state, action, after, latents).detach()
    expected = float((log_p.double().logsumexp(dim=(0, 1)) - np.log(log_p[..., 0].numel()))[0])
    row = state, action, after, torch.tensor([0]), torch.Generator()
    assert float(agent.log_predictive(*row)) == pytest.approx(expected, abs=0.1)
    location, scale = (part.detach() for part in agent.predict(state, action, latents))
    target = float(agent.task.targets(state, after))
    cdf = norm.cdf(target, location.numpy(), scale.numpy()).mean()
    assert float(agent.predictive_pit(*row)) == pytest.approx(cdf, abs=0.02)
    # A factor widens all of the prediction: at a large one every target is in its middle.
    assert float(agent.predictive_pit(*row, factor=torch.full((1, 1), 1e6))) == pytest.approx(0.5, abs=1e-4)


def test_what_was_trained_is_all_in_its_state(group: AgentGroup) -> None:
    other = trained()
    networks = EnsembleConfig(members=2, hidden=(16,), weight_decay=(0.0, 0.0))
    config = RunConfig(agent="last-layer", ensemble=networks, online=CHANGEPOINT_KALMAN)
    fresh = build_group(config, family(), Line.action_space)
    state = group.state_dict()
    with pytest.raises(UserError, match="layers"):
        fresh.load_state_dict({"agents": [{**state["agents"][0], "layers": {}}]})
    fresh.load_state_dict(state)
    for one in (other, fresh):  # the same training, and what it left
        assert all(torch.equal(*pair) for pair in zip(group.beliefs(), one.beliefs(), strict=True))
        assert one.fingerprint() == group.fingerprint()
    after = [learn(group_for(one, family(), [1.5]), 1.5, 5) for one in (fresh, group)]
    assert torch.equal(*after)


def test_a_change_of_sign_is_found_and_the_recursive_belief_has_none(group: AgentGroup) -> None:
    here = group_for(group, family(), [1.5])
    learn(here, 1.5, 24)
    after = learn(here, -1.5, 12, seed=2)
    assert after[0] < after[-4:].min() - 3
    lasting = group_for(trained(OnlineConfig()), family(), [1.5])
    learn(lasting, 1.5, 24)
    assert learn(lasting, -1.5, 12, seed=2)[-4:].max() < after[-4:].min()
    assert not lasting.changed().any()


def test_what_does_not_apply_is_said_in_words(group: AgentGroup) -> None:
    with pytest.raises(UserError, match="changepoint and recursive, not power"):
        trained(OnlineConfig("power", PowerConfig()))
    with pytest.raises(UserError, match="only its predictions"):
        refuse_without_posterior(group.agents[0])
    with pytest.raises(UserError, match="no guide to fit"):
        group.agents[0].refit()  # type: ignore[call-arg]


def test_one_environment_has_nothing_to_report() -> None:
    family = find_family("pendulum-gravity")
    alone = Family("alone", family.environment, "gravity", "m/s^2", train=(5.0,), test=(6.0,), task=family.task)
    envs = alone.make_vector(alone.train, 5)
    group = build_group(RunConfig(agent="last-layer"), alone, envs.single_action_space)
    envs.close()
    mean, sd = group.beliefs()
    assert mean.shape == sd.shape == (1, 0)


LITTLE: dict[str, Any] = {
    "steps": 20,
    "episodes": 1,
    "offline": {"min_steps": 60},
    "controller": MPCConfig(horizon=5, particles=3),
    "planner_config": ICEMConfig(candidates=10, elites=2, iterations=2),
}


def train_a_little(out: Path, rounds: int) -> pd.OnlineAgent:
    return pd.train("pendulum-gravity", agent="last-layer", out=out, rounds=rounds, **LITTLE)


def test_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole, begun = train_a_little(tmp_path / "whole", 2), train_a_little(tmp_path / "parts", 1)
    assert all(len(row["latent_mean"]) == 2 for row in begun.metrics if row["round"])
    resumed = train_a_little(tmp_path / "parts", 2)
    assert resumed.metrics == whole.metrics
    assert all(map(np.array_equal, resumed.trained_beliefs, whole.trained_beliefs))


def test_a_belief_is_kept_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    agent = train_a_little(tmp_path / "run", 1)
    env = pd.make("pendulum-gravity", context=7.0)
    observation, _ = env.reset(seed=1)

    def step(one: pd.OnlineAgent, observation: np.ndarray) -> np.ndarray:
        action = one.act(observation)
        after, *_ = env.step(action)
        one.update(observation, action, after)
        return after

    for _ in range(6):
        observation = step(agent, observation)
    agent.save(tmp_path / "run")
    again = pd.load(tmp_path / "run")
    assert again.updates == 6
    assert np.array_equal(agent.act(observation), again.act(observation))
    assert str(agent.belief.decode()).startswith("gravity")
    assert np.array_equal(agent.belief.mean, again.belief.mean)
    assert "k-hat" not in agent.verdict().text
    with pytest.raises(UserError, match="exact in a linear model"):
        agent.to_datatree()


def test_every_command_does_what_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    train_a_little(run, 1)
    adapt.main([str(run), "--context", "7", "--steps", "6", "--out", str(tmp_path / "adapted")])
    diagnose.main([str(tmp_path / "adapted")])
    assert "gravity" in capsys.readouterr().out
    evaluate.main([str(run), "--contexts", "7", "--steps", "4"])
    diagnose.main([str(run), "--horizon", "5", "--particles", "20"])
    assert "only predictions to judge" in capsys.readouterr().out
    compare.main([str(run), "--out", str(tmp_path / "compared.png")])
    track.main([str(run), "--schedule", "0:9,4:3", "--steps", "8", "--seeds", "1", "--beliefs", "changepoint"])
    assert "changepoint" in capsys.readouterr().out
    with pytest.raises(UserError, match="no belief to calibrate"):
        calibrate.main([str(run)])
