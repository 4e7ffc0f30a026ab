"""The Python interface: the same agents and numbers as the commands, one environment, numpy in and out."""

import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import pyro_dynamics as pd
from pyro_dynamics.environments import Schedule
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, DiagonalGuide
from pyro_dynamics.rollouts.acting import Acting, act_and_update
from pyro_dynamics.runners.common.configuration import preset_config
from pyro_dynamics.runners.common.factory import group_for, load_run
from pyro_dynamics.runners.common.settings_by_name import folder_suffix
from pyro_dynamics.runners.main import main
from pyro_dynamics.seeding import derive_generator, derive_seed

SMALL: dict[str, Any] = {
    "rounds": 1,
    "steps": 25,
    "episodes": 1,
    "offline": {"min_steps": 60, "epochs": 2},
    "controller": {"horizon": 4},
    "planner_config": {"candidates": 12, "elites": 4},
}
FLAGS = "--rounds 1 --steps 25 --episodes 1 --offline.min-steps 60 --offline.epochs 2 --controller.horizon 4"
COMMAND = ["train", *FLAGS.split(), "--planner.candidates", "12", "--planner.elites", "4"]


@pytest.fixture(autouse=True)
def _own_parts_go_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is not there for the tests of other files."""
    monkeypatch.setattr(GUIDES, "_parts", dict(GUIDES))
    families = dict(pd.FAMILIES)
    yield
    for name in set(pd.FAMILIES) - set(families):
        del pd.FAMILIES[name]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("interface") / "run"
    pd.train("pendulum-gravity", out=out, **SMALL)
    return out


def loop(agent: Any, env: gymnasium.Env, steps: int, seed: int = 0) -> list[np.ndarray]:
    """The states of the loop of the user's own."""
    observation, _ = env.reset(seed=derive_seed(seed, "adapt", 0, "reset", 0))
    states = [observation]
    for _ in range(steps):
        action = agent.act(observation)
        following, *_ = env.step(action)
        agent.update(observation, action, following)
        observation = following
        states.append(observation)
    return states


@pytest.mark.parametrize("sent", [[100.0], [-57.3], np.array([[40.0]])])
def test_an_action_far_outside_of_its_bounds_is_warned_of_once(run: Path, sent: Any) -> None:
    agent = pd.load(run)
    observation = np.array([1.0, 0.0, 0.1])
    with pytest.warns(UserWarning, match=r"action 0 is .*, and its bounds are -2 and 2") as found:
        agent.update(observation, sent, observation + 0.1)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            agent.update(observation, sent, observation + 0.1)
    with pytest.warns(UserWarning, match="its bounds are -2 and 2"):
        pd.load(run).predict(observation, sent)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([1e6, 0.0, 0.0], r"lay between -?\d.* in all that was trained on, and is 1e\+06 now"),
        ([180.0, 0.0, 0.0], "and is 180 now"),  # an angle in degrees for its cosine
        ([1.0, 0.0, -4000.0], "and is -4e\\+03 now"),
    ],
)
def test_a_state_far_outside_of_the_training_is_warned_of_once(run: Path, state: Any, words: str) -> None:
    near = [1.0, 0.0, 0.1]
    for call in (
        lambda agent: agent.act(state),
        lambda agent: agent.predict(np.array(state), [0.1]),
        lambda agent: agent.update(state, [0.1], near),
        lambda agent: agent.update(near, [0.1], state),
    ):
        agent = pd.load(run)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call(agent)
            call(agent)
        (warning,) = [one for one in found if "in all that was trained on" in str(one.message)]
        assert re.search(words, str(warning.message))
        assert warning.filename == __file__


@pytest.mark.parametrize("state", [[1.0, 0.0, 0.1], [-1.0, 0.1, 12.0], [0.0, 1.0, -12.0]])
def test_a_state_near_those_of_the_training_is_not(run: Path, state: Any) -> None:
    agent = pd.load(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.act(state)
        agent.predict(state, [0.1])
        agent.update(state, [0.1], [*state[:2], 0.2])


@pytest.mark.parametrize("sent", [[2.0], [-2.9], [0.0]])
def test_an_action_that_the_environment_will_clip_is_not(run: Path, sent: Any) -> None:
    agent = pd.load(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.update([1.0, 0.0, 0.1], sent, [1.0, 0.0, 0.1])
        agent.predict([1.0, 0.0, 0.1], sent)


def test_train_has_the_numbers_of_the_command(run: Path, tmp_path: Path) -> None:
    assert main([*COMMAND, "--out", str(tmp_path / "command")]) == 0
    assert (run / "metrics.jsonl").read_bytes() == (tmp_path / "command" / "metrics.jsonl").read_bytes()
    assert (run / "config.json").read_text() == (tmp_path / "command" / "config.json").read_text()


def test_one_environment_acts_and_believes_as_the_batched_loop_does(run: Path) -> None:
    agent = pd.load(run, seed=3)
    states = loop(agent, pd.make("pendulum-gravity", 7.0, max_steps=12), 12, seed=3)
    _, _, family, trained = load_run(run)
    group = group_for(trained, family, [7.0])
    envs = family.make_vector([7.0], 12)
    draws = derive_generator(3, "adapt", 0, "actions")
    steps = list(act_and_update(group, envs, [derive_seed(3, "adapt", 0, "reset", 0)], draws, Acting()))
    assert_array_equal(np.stack(states[1:]), torch.cat([step.next_state for step in steps]).numpy())
    assert_array_equal(agent.belief.mean, group.beliefs()[0][0].numpy())
    assert_array_equal(agent.belief.sd, group.beliefs()[1][0].numpy())


def test_the_same_call_loads_and_another_setting_is_refused(run: Path) -> None:
    before = (run / "checkpoints" / "round-001.pt").stat().st_mtime_ns
    again = pd.train("pendulum-gravity", out=run, **SMALL)
    assert again.run == run
    assert (run / "checkpoints" / "round-001.pt").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="steps"):
        pd.train("pendulum-gravity", out=run, **{**SMALL, "steps": 26})


def test_torch_is_left_as_it_was(run: Path) -> None:
    torch.set_flush_denormal(False)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    agent = pd.load(run, threads=2)
    loop(agent, pd.make("pendulum-gravity", 7.0), 2)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert float(torch.tensor([1e-310], dtype=torch.float64) * 1) > 0


def test_a_saved_agent_goes_on_as_if_it_had_never_been_left(run: Path, tmp_path: Path) -> None:
    agent, env = pd.load(run), pd.make("pendulum-gravity", 7.0)
    observation = loop(agent, env, 5)[-1]
    agent.save(tmp_path / "saved")
    other = pd.load(tmp_path / "saved")
    assert other.updates == 5
    assert_array_equal(other.belief.mean, agent.belief.mean)
    assert_array_equal(other.act(observation), agent.act(observation))
    assert len(other.observed()) == len(agent.observed())
    with pytest.raises(UserError, match="exists already"):
        agent.save(tmp_path / "saved")
    fresh = pd.load(tmp_path / "saved", belief="recursive")  # another belief begins at the prior
    assert fresh.updates == 0


def test_belief_returns_to_the_prior_when_asked_alone(run: Path) -> None:
    agent = pd.load(run)
    prior = agent.belief.mean
    loop(agent, pd.make("pendulum-gravity", 7.0), 4)
    learned = agent.belief.mean
    assert not np.array_equal(learned, prior)
    agent.reset()
    assert_array_equal(agent.belief.mean, learned)
    agent.reset_belief()
    assert_array_equal(agent.belief.mean, prior)
    assert agent.updates == 0


def test_decoded_intervals_are_those_of_the_gaussian(run: Path) -> None:
    """A linear map of a Gaussian belief is a Gaussian, whose quantiles are known."""
    agent = pd.load(run, belief="recursive", update="kalman")
    loop(agent, pd.make("pendulum-gravity", 7.0), 3)
    belief = agent.belief
    decoded = belief.decode(0.9)
    tree = agent.to_datatree(draws=20_000)
    assert decoded.names == ("gravity",)
    assert decoded.units == ("m/s^2",)
    assert_allclose(decoded.low, decoded.mean - 1.645 * decoded.sd, atol=0.08 * float(decoded.sd[0]))
    assert_allclose(decoded.high, decoded.mean + 1.645 * decoded.sd, atol=0.08 * float(decoded.sd[0]))
    assert_allclose(float(tree["posterior"]["gravity"].std()), decoded.sd[0], rtol=0.05)
    assert_allclose(belief.sample(20_000).mean(0), belief.mean, atol=0.03 * float(belief.sd.max()) + 1e-6)
    assert f"{decoded.mean[0]:.2f} m/s^2 (90 %: " in str(decoded)


def test_reading_a_belief_does_not_change_what_comes(run: Path) -> None:
    looked, blind = pd.load(run), pd.load(run)
    env = pd.make("pendulum-gravity", 7.0)
    observation, _ = env.reset(seed=0)
    looked.belief.sample(10)
    looked.belief.decode()
    looked.predict(observation, np.zeros((3, 1)))
    repr(looked)
    assert_array_equal(looked.act(observation), blind.act(observation))


def test_predictions_narrow_to_the_dynamics(run: Path) -> None:
    agent = pd.load(run)
    start = np.array([1.0, 0.0, 0.0], dtype=np.float32)
    predicted = agent.predict(start, np.zeros((6, 1)), draws=90)
    assert predicted.draws.shape == (90, 6, 3)
    low, high = predicted.interval(0.5)
    assert (low <= high).all()
    assert (predicted.sd[5] > predicted.sd[0]).any()
    assert agent.predict(start, np.zeros(1)).draws.shape[1:] == (1, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda agent: agent.act(np.zeros(4)), "observation must be a vector of 3"),
        (lambda agent: agent.act(np.full(3, np.nan)), "must be finite"),
        (lambda agent: agent.update(np.zeros(3), np.zeros(2), np.zeros(3)), "action must be a vector of 1"),
        (lambda agent: agent.predict(np.zeros(3), np.zeros((4, 2))), "actions must be a vector of 1"),
        (lambda agent: agent.to_datatree(), "still the prior"),
        (lambda agent: agent.belief.decode(1.5), "between 0 and 1"),
        (lambda agent: pd.train(rounds=1, guid="flow"), "unknown setting 'guid'"),
        (lambda agent: pd.train(rounds=1, offline={"min_stepz": 1}), "min_stepz"),
        (lambda agent: pd.train("nosuch"), "unknown family"),
        (lambda agent: pd.train(preset="nosuch"), "unknown preset"),  # type: ignore[arg-type]
        (lambda agent: pd.load("nosuch"), "not a run folder"),
        (lambda agent: pd.make("pendulum-gravity", "fast"), "gravity"),
    ],
)
def test_mistakes_are_named(run: Path, call: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        call(pd.load(run))


def test_parts_of_ones_own_as_objects(tmp_path: Path) -> None:
    class OwnGuide(DiagonalGuide):
        pass

    OwnGuide.__module__, OwnGuide.__qualname__ = "__main__", "OwnGuide"  # as in a notebook
    family = pd.find_family("pendulum-gravity")
    own = pd.Family("own-pendulum", family.environment, "gravity", "m/s^2", (3.0, 6.0), (4.0,), family.task)
    agent = pd.train(own, guide=OwnGuide, out=tmp_path / "own", **SMALL)
    assert type(agent.agent.guide).__name__ == "OwnGuide"
    assert agent.family is own
    assert pd.load(tmp_path / "own", family=lambda: own, parts={"guide": OwnGuide}).family is own
    other = pd.Family("pendulum-gravity", family.environment, "gravity", "m/s^2", (3.0, 6.0), (4.0,), family.task)
    with pytest.raises(UserError, match="another name"):
        pd.make(other)


def test_a_function_of_a_module_is_found_again_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_robot.py").write_text(
        "import dataclasses, pyro_dynamics as pd\n"
        "def make_family():\n"
        "    return dataclasses.replace(pd.find_family('pendulum-gravity'), name='robot', train=(3.0, 6.0))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    from some_robot import make_family  # type: ignore[import-not-found]

    agent = pd.train(make_family, out="run", **SMALL)
    assert agent.config["family"] == "some_robot:make_family"
    assert main(["adapt", "run", "--context", "4", "--steps", "3", "--quiet"]) == 0
    pd.train(make_family(), out="object", **SMALL)  # a run that knows its family by name alone
    pd.FAMILIES.pop("robot")
    with pytest.raises(UserError, match="family="):
        pd.load("object")
    assert pd.load("object", family="some_robot:make_family").family.train == (3.0, 6.0)


def test_the_verdict_is_that_of_adapt(run: Path) -> None:
    agent, steps = pd.load(run), 12
    with pytest.raises(UserError, match="still the prior"):
        agent.verdict()
    loop(agent, pd.make("pendulum-gravity", 7.0), steps)
    believed, observation = agent.belief.mean, np.zeros(3, dtype=np.float32)
    verdict = agent.verdict()
    assert_array_equal(agent.belief.mean, believed)  # it follows the steps with a belief of its own
    again = pd.load(run)
    loop(again, pd.make("pendulum-gravity", 7.0), steps)
    assert_array_equal(again.act(observation), agent.act(observation))
    log = agent.observed()
    arrays = {name: value for name, value in log.arrays().items() if name in ("state", "action", "next_state", "step")}
    np.savez(run.parent / "log.npz", **arrays, episode=np.zeros(steps))  # type: ignore[arg-type]
    assert main(["adapt", str(run), "--replay", str(run.parent / "log.npz"), "--out", str(run.parent / "replay")]) == 0
    summary = json.loads((run.parent / "replay" / "summary.json").read_text())
    assert str(verdict.word) == summary["verdict"]["word"]
    assert str(verdict).startswith(verdict.title)


def test_make_takes_numbers_schedules_and_settings() -> None:
    assert pd.make("pendulum-gravity").reset(seed=0)[1]["context"] == 6.0
    env = pd.make("pendulum-gravity", "0:9,2:3", max_steps=4, render_mode="rgb_array")
    env.reset(seed=0)
    contexts = [env.step(np.zeros(1, dtype=np.float32))[4]["context"] for _ in range(3)]
    assert contexts[0] == 9.0
    assert contexts[-1] == 3.0


@pytest.mark.parametrize("given", [lambda state, action: 0.0, Schedule, pd.Family])
def test_a_callable_that_needs_arguments_makes_no_family(given: Any) -> None:
    with pytest.raises(UserError, match=r"needs arguments \(missing a required argument: .*\): name a pyro_dynamics.F"):
        pd.make(given)


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [("0:9,2:3", 2), ("ramp:0:9,50:3", 20), (Schedule(((0, 9.0), (300, 3.0))), 200), ("0:9,500:3", None)],
)
def test_a_change_after_the_last_step_is_warned_of(schedule: Any, steps: int | None) -> None:
    with pytest.warns(UserWarning, match="the schedule changes at .* never comes: the episode has") as found:
        pd.make("pendulum-gravity", schedule, max_steps=steps)
    assert found[0].filename == __file__


def test_adapt_says_that_a_change_never_comes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = {"state": 3, "action": 1, "next_state": 3}
    log = {name: np.full((6, size), 0.1) for name, size in shape.items()}
    np.savez(tmp_path / "log.npz", **log)  # type: ignore[arg-type]
    change, out = ["--schedule", "0:3,500:9", "--quiet", "--steps"], ["--out", str(tmp_path / "out")]
    for where, steps in (([], "4"), (["--replay", str(tmp_path / "log.npz")], "6")):
        assert main(["adapt", str(run), *where, *change, steps, *out]) == 0
        words = f"warning: the schedule changes at step 500, and that never comes: the episode has {steps} steps"
        assert words in capsys.readouterr().err.splitlines()
        shutil.rmtree(tmp_path / "out")
    assert main(["adapt", str(run), "--schedule", "0:3,3:9", "--quiet", "--steps", "4", *out]) == 0
    assert "never comes" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("family", "context", "named", "found"),
    [
        ("pendulum-gravity", None, {"gravity": 9.0}, 9.0),
        ("pendulum-gravity", None, {"gravity": "4"}, 4.0),
        ("pendulum-gravity", 3.0, {"gravity": None}, 3.0),
        ("halfcheetah-mass-damping", None, {"mass": 0.75}, (0.75, 1.0)),
        ("halfcheetah-mass-damping", None, {"damping": 1.5, "mass": 0.75}, (0.75, 1.5)),
        ("halfcheetah-crippled", None, {"disabled": "front-foot"}, "front-foot"),
    ],
)
def test_a_hidden_parameter_by_its_name_is_the_context(
    family: str, context: Any, named: dict[str, Any], found: Any
) -> None:
    assert pd.make(family, context, **named).reset(seed=0)[1]["context"] == found


@pytest.mark.parametrize(
    ("family", "context", "named"),
    [
        ("pendulum-gravity", 3.0, {"gravity": 9.0}),
        ("halfcheetah-mass-damping", (1.0, 1.0), {"mass": 0.75}),
        ("pendulum-gravity", "0:9,2:3", {"gravity": 9.0}),
    ],
)
def test_a_context_that_is_given_twice_is_refused(family: str, context: Any, named: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"give either context or {next(iter(named))}, not both"):
        pd.make(family, context, **named)
    with pytest.raises(UserError, match=f"the context says the {next(iter(named))}: give no other beside it"):
        pd.find_family(family).make_vector([pd.find_family(family).train[0]], 5, **named)


def test_agents_without_a_latent_say_so(tmp_path: Path) -> None:
    agent = pd.train(agent="generalist", out=tmp_path / "generalist", **SMALL)
    assert agent.belief.mean.shape == (0,)
    with pytest.raises(UserError, match="infers no latent"):
        agent.belief.decode()
    oracle = pd.train(agent="oracle", out=tmp_path / "oracle", **SMALL)
    oracle.set_context(7.0)
    assert oracle.act(np.array([1.0, 0.0, 0.0])).shape == (1,)


def test_fit_learns_from_a_file_and_follows_a_stream(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    gain = np.repeat([0.5, 1.0, 2.0], 200)
    action = rng.uniform(-1, 1, size=(600, 1))
    place = (gain[:, None] * action).reshape(3, 200).cumsum(1).reshape(600, 1)
    log = {"state": place - gain[:, None] * action, "action": action, "next_state": place, "gain": gain}
    np.savez(tmp_path / "log.npz", **log)  # type: ignore[arg-type]
    small: dict[str, Any] = {"offline": {"min_steps": 1500}, "ensemble": {"members": 2}}
    agent = pd.fit(tmp_path / "log.npz", group="gain", unit="m", out=tmp_path / "fitted", **small)
    for _ in range(30):
        x, u = rng.normal(size=1), rng.uniform(-1, 1, size=1)
        agent.update(x, u, x + 1.5 * u)
    assert agent.belief.decode().mean[0] == pytest.approx(1.5, abs=0.3)
    assert_allclose(agent.predict(np.zeros(1), np.ones(1)).mean, [[1.5]], atol=0.3)
    assert agent.belief.steps == 30
    again = pd.fit(tmp_path / "log.npz", group="gain", unit="m", out=tmp_path / "fitted", **small)
    assert_array_equal(again.trained_beliefs[0], agent.trained_beliefs[0])
    assert len(again.metrics) == 3
    log["action"] = -log["action"]
    with pytest.raises(UserError, match="other data"):
        pd.fit(log, group="gain", unit="m", out=tmp_path / "fitted", **small)
    with pytest.raises(UserError, match="no simulator"):
        agent.act(np.zeros(1))
    with pytest.raises(UserError, match="unknown setting 'rounds'"):
        pd.fit(tmp_path / "log.npz", group="gain", rounds=3)


def test_what_ones_program_sets_in_torch_does_not_change_the_numbers(run: Path) -> None:
    env, expected = pd.make("pendulum-gravity", 7.0), loop(pd.load(run), pd.make("pendulum-gravity", 7.0), 4)
    torch.set_default_dtype(torch.float64)
    try:
        states = loop(pd.load(run), env, 4)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert_array_equal(states, expected)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            agent = pd.load(run, belief="recursive", update="svi")
            loop(agent, env, 2)
        loop(agent, env, 2)  # nothing of that mode is left
        assert agent.updates == 4


def test_threads_do_not_draw_from_one_anothers_streams(run: Path) -> None:
    def states(seed: int) -> list[np.ndarray]:
        return loop(pd.load(run, seed=seed), pd.make("pendulum-gravity", 7.0), 15)

    alone = [states(0), states(1)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            assert_array_equal(list(pool.map(states, (0, 1))), alone)


def test_an_observation_that_is_written_over_stays_as_it_was_seen(run: Path) -> None:
    agent, buffer = pd.load(run), np.zeros(3, dtype=np.float32)
    for angle in (0.1, 0.2):
        buffer[:] = np.cos(angle), np.sin(angle), 0.3
        agent.update(buffer, np.zeros(1, dtype=np.float32), buffer.copy())
    with pytest.raises(UserError, match="the same array"):
        agent.update(buffer, np.zeros(1), buffer)
    same = [0.1, 0.2, 0.3]
    for both in ((same, same), (torch.from_numpy(buffer), buffer), (torch.from_numpy(buffer),) * 2):
        with pytest.raises(UserError, match="the same array"):
            agent.update(both[0], np.zeros(1), both[1])
    assert_allclose(agent.observed().state[:, 0].numpy(), np.cos([0.1, 0.2]), rtol=1e-6)


@pytest.mark.parametrize("view", [lambda action: action, lambda action: action[:], torch.from_numpy])
def test_an_action_that_is_written_over_is_refused(view: Any, run: Path) -> None:
    """An environment may scale it in place: then what was sent is known no more."""
    agent, state = pd.load(run), np.array([1.0, 0.0, 0.0])
    action = agent.act(state)
    action *= 0.5
    with pytest.raises(UserError, match=r"was written over since.*action\.copy\(\)"):
        agent.update(state, view(action), state + 0.1)
    assert agent.updates == 0
    agent.update(state, action.copy(), state + 0.1)  # what was sent, says the user
    agent.update(state, agent.act(state), state + 0.1)
    assert agent.updates == 2


def test_a_family_with_other_contexts_does_not_take_over_a_run(tmp_path: Path) -> None:
    family = pd.find_family("pendulum-gravity")

    def own(train: tuple[float, ...]) -> pd.Family:
        return pd.Family("edited", family.environment, "gravity", "m/s^2", train, (4.0,), family.task)

    pd.train(own((3.0, 6.0)), out=tmp_path / "run", **SMALL)
    for again in (
        lambda: pd.train(own((3.0, 12.0)), out=tmp_path / "run", **SMALL),
        lambda: pd.train(own((3.0, 12.0)), out=tmp_path / "run", **{**SMALL, "rounds": 2}),
        lambda: pd.load(tmp_path / "run", family=own((6.0, 3.0))),
    ):
        with pytest.raises(UserError, match=r"was trained under .* 3 6"):
            again()
    assert pd.load(tmp_path / "run", family=own((3.0, 6.0))).family.train == (3.0, 6.0)


def test_a_belief_saved_in_the_folder_of_its_run(run: Path, tmp_path: Path) -> None:
    agent = pd.train(out=tmp_path / "run", **SMALL)
    loop(agent, pd.make("pendulum-gravity", 7.0), 3)
    agent.save(agent.run)
    assert pd.train(out=tmp_path / "run", **SMALL).updates == 0  # at the prior, as it says
    assert pd.load(tmp_path / "run").updates == 3
    other = pd.load(tmp_path / "run", seed=5)
    assert (other.seed, other.updates) == (5, 3)
    observation = np.array([1.0, 0.0, 0.0])
    assert_array_equal(pd.load(tmp_path / "run", seed=0).act(observation), agent.act(observation))
    more = pd.train(out=tmp_path / "run", **{**SMALL, "rounds": 2}).updates
    assert more == 0
    with pytest.raises(UserError, match=r"trained on since.*online\.pt"):
        pd.load(tmp_path / "run")


def test_a_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained = pd.train(**SMALL)
    loaded = pd.load(os.path.relpath(trained.run))
    rows = trained.metrics
    (tmp_path / "analysis").mkdir()
    monkeypatch.chdir(tmp_path / "analysis")
    for agent in (trained, loaded):
        assert agent.metrics == rows
        agent.save("saved")
        assert pd.load("saved").updates == 0
        shutil.rmtree("saved")


def test_a_saved_agent_keeps_its_own_belief_and_model(tmp_path: Path) -> None:
    pd.train(out=tmp_path / "run", **{**SMALL, "rounds": 2}, keep_checkpoints=(1,))
    agent = pd.load(tmp_path / "run", checkpoint=1)
    agent.save(tmp_path / "earlier")
    assert pd.load(tmp_path / "earlier").state_dict()["network"] == agent.state_dict()["network"]
    agent = pd.load(tmp_path / "run", belief="power", temperature=0.5)
    loop(agent, pd.make("pendulum-gravity", 7.0), 3)
    agent.save(tmp_path / "power")
    again = pd.load(tmp_path / "power")
    assert again.config["online"] == agent.config["online"]
    assert_array_equal(again.belief.mean, agent.belief.mean)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda agent: agent.act((np.zeros(3), {})), "gives a pair"),
        (lambda agent: agent.act({"position": np.zeros(3)}), "not this dict"),
        (lambda agent: agent.predict(np.zeros(3), np.zeros((0, 1))), "at least one action"),
        (lambda agent: agent.predict(np.zeros(3), [[0.0], [0.0, 1.0]]), "actions must be"),
        (lambda agent: agent.predict(np.zeros(3), [[0.0]], draws=2.5), "whole number"),
        (lambda agent: agent.belief.sample(0), "at least 1"),
        (lambda agent: pd.load(agent.run, parts={"guides": DiagonalGuide}), "parts has no entry 'guides'"),
        (lambda agent: pd.load(agent.run, seed="a"), "whole number"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_vector_or_number_is_refused_in_words(run: Path, call: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        call(pd.load(run))


def test_a_tensor_with_a_gradient_is_an_observation(run: Path) -> None:
    state = [1.0, 0.0, 0.0]
    assert_array_equal(pd.load(run).act(torch.tensor(state, requires_grad=True)), pd.load(run).act(state))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda family: pd.train(**{**SMALL, "rounds": 1.5}), r"whole number, not 1\.5"),
        (lambda family: pd.train(**SMALL, update_while_training="False"), "true or false, not 'False'"),
        (lambda family: pd.train(7), "a family is a name"),  # type: ignore[arg-type]
        (lambda family: pd.make(replace(family, name="a:b")), "folders' names"),
        (lambda family: pd.make(replace(family, name="../up")), "folders' names"),
        (lambda family: pd.make("pendulum-gravity", max_steps=0), "at least 1"),
    ],
)
def test_settings_are_not_bent_to_fit(call: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        call(pd.find_family("pendulum-gravity"))


def test_a_class_has_one_name_wherever_it_comes_from() -> None:
    assert GUIDES.word_for(DiagonalGuide) == "diagonal"

    class Inner(DiagonalGuide):
        pass

    assert GUIDES.word_for(Inner) == "Inner"  # no other process could import it
    assert GUIDES.find("Inner") is Inner


def test_the_order_of_settings_does_not_change_the_folder() -> None:
    preset = preset_config("pendulum-gravity", "quick")  # has two rounds
    assert folder_suffix(preset, {"steps": 3, "rounds": 4}) == "-rounds-4-steps-3"
    assert folder_suffix(preset, {"rounds": 4, "steps": 3}) == "-rounds-4-steps-3"
    assert folder_suffix(preset, {"rounds": 2}) == ""
