"""A stream that is left after some steps and resumed from its state is the stream that was never left."""

import io
from typing import Any

import pytest
import torch

from pyro_dynamics.control import PLANNERS
from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts.adaptation import AdaptationStep, adapt, replay
from pyro_dynamics.rollouts.stream_state import ResumePoint, StreamState
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_group, group_for
from pyro_dynamics.runners.train import parse
from pyro_dynamics.transitions import Transitions

FAMILY = find_family("pendulum-gravity")
STEPS, LEFT = 6, 4
SMALL = [
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0"),
    *("--controller.horizon", "3", "--controller.particles", "3"),
]


def config(*flags: str) -> RunConfig:
    return parse(["pendulum-gravity", *SMALL, *flags]).run


def from_disk(state: dict[str, Any]) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded: dict[str, Any] = torch.load(buffer, weights_only=True)
    return loaded


def stream(settings: RunConfig, resume_point: ResumePoint | None = None) -> tuple[list[AdaptationStep], dict[str, Any]]:
    """The steps, and the state after some of them."""
    envs = FAMILY.make_vector([3.0], STEPS)
    group = build_group(settings, FAMILY, envs.single_action_space)
    group_here, kept = group_for(group, FAMILY, [3.0]), {}
    stream_state, found = StreamState(group_here, 0), []
    for step in adapt(group_here, envs, 0, belief_draws=5, stream_state=stream_state, resume_point=resume_point):
        found.append(step)
        if step.index == LEFT - 1:
            kept = from_disk(stream_state.state_dict())
    return found, kept


def same(one: AdaptationStep, other: AdaptationStep) -> bool:
    names = ("reward", "log_likelihood", "pit", "inside", "mean", "scale", "state", "action", "draws", "log_q")
    return one.index == other.index and all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


CASES = [
    *(
        ["--belief", belief, "--update", "kalman"]
        for belief in ("recursive", "power", "diffusion", "window", "changepoint")
    ),
    *(["--guide", guide, "--update", "svi", "--update.steps", "3"] for guide in ("mixture", "flow", "amortized")),
    ["--belief", "changepoint", "--update", "svi", "--update.steps", "3"],
    *(["--update", "kalman", "--planner", planner] for planner in PLANNERS),
    *(["--agent", agent] for agent in ("generalist", "specialist", "oracle")),
]


@pytest.mark.parametrize("flags", CASES, ids=" ".join)
def test_it_resumes_as_if_it_had_never_been_left(flags: list[str]) -> None:
    settings = config(*flags)
    whole, kept = stream(settings)
    state, action = (torch.stack([getattr(step, name) for step in whole[:LEFT]]) for name in ("state", "action"))
    rest, _ = stream(settings, ResumePoint(state, action, kept))
    assert [step.index for step in rest] == list(range(LEFT, STEPS))
    assert all(same(one, other) for one, other in zip(whole[LEFT:], rest, strict=True))
    fresh, _ = stream(
        settings, ResumePoint(state, action, stream(settings)[1] | {"group": stream_of_nothing(settings)})
    )
    assert flags[:1] == ["--agent"] or not same(whole[LEFT], fresh[0])  # the state matters


def stream_of_nothing(settings: RunConfig) -> Any:
    """The state of agents that have seen nothing."""
    group = build_group(settings, FAMILY, FAMILY.make_vector([3.0], STEPS).single_action_space)
    return StreamState(group_for(group, FAMILY, [3.0]), 0).state_dict()["group"]


def test_a_log_is_followed_on_from_where_it_was_left() -> None:
    settings = config("--update", "kalman")
    acted, _ = stream(settings)
    names = ("state", "action", "next_state", "reward")
    parts = {name: torch.cat([getattr(step, name) for step in acted]) for name in names}
    log = Transitions(**parts, environment=torch.zeros(STEPS, dtype=torch.long), step=torch.arange(STEPS))

    def follow(resume_point: ResumePoint | None) -> tuple[list[AdaptationStep], dict[str, Any]]:
        group = build_group(settings, FAMILY, FAMILY.make_vector([3.0], STEPS).single_action_space)
        group_here, kept = group_for(group, FAMILY, [3.0]), {}
        stream_state, found = StreamState(group_here, 0, acting=False), []
        for step in replay(group_here, log, [3.0] * STEPS, 0, 5, stream_state, resume_point):
            found.append(step)
            if step.index == LEFT - 1:
                kept = from_disk(stream_state.state_dict())
        return found, kept

    whole, kept = follow(None)
    resume_point = ResumePoint(log.state[:LEFT, None], log.action[:LEFT, None], kept)
    rest, _ = follow(resume_point)
    assert len(rest) == STEPS - LEFT
    assert all(same(one, other) for one, other in zip(whole[LEFT:], rest, strict=True))
    other = ResumePoint(log.state[:LEFT, None] + 1, log.action[:LEFT, None], kept)
    with pytest.raises(UserError, match="step 0 does not begin in the state that it began in before"):
        follow(other)


def test_the_state_of_other_agents_is_refused() -> None:
    _, kept = stream(config("--update", "kalman"))
    empty = torch.zeros(0, 1, 3)
    with pytest.raises(UserError, match="the state that was kept of the first steps is of other agents"):
        stream(config("--update", "kalman", "--latent-dim", "3"), ResumePoint(empty, empty, kept))
    with pytest.raises(UserError, match="is of other agents"):
        stream(config("--update", "kalman"), ResumePoint(empty, empty, {}))


@pytest.mark.parametrize("flags", CASES, ids=" ".join)
def test_a_state_may_be_returned_to_again(flags: list[str]) -> None:
    """What follows a return changes nothing in the state that was returned to."""
    settings = config(*flags)
    envs = FAMILY.make_vector([3.0], STEPS)
    group = group_for(build_group(settings, FAMILY, envs.single_action_space), FAMILY, [3.0])
    stream_state = StreamState(group, 0)
    steps = list(adapt(group, envs, 0, belief_draws=5, stream_state=stream_state))
    kept = stream_state.state_dict()
    before = from_disk(kept)
    for _ in range(2):
        stream_state.load_state_dict(kept)
        for step in steps:
            group.observe(step.state, step.action, step.next_state, torch.tensor([0]), stream_state.draws)
        assert equal(kept, before)


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)
