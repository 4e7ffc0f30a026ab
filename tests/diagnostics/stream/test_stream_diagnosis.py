"""The diagnosis of an adaptation: on a stream whose exact belief is known, and on what the command stores."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.diagnostics.stream.evidence import Evidence
from pyro_dynamics.diagnostics.stream.stream_diagnosis import (
    StreamDiagnosis,
    checkpoints,
    diagnose_stream,
    known_since,
    make_probe,
)
from pyro_dynamics.diagnostics.stream.troubles import stretches
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import FullRankGuide
from pyro_dynamics.inference import BELIEFS, KalmanUpdate, KalmanUpdateConfig, OfflineConfig
from pyro_dynamics.io.stream_folder import load_adaptation
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.plots.stream_figure import draw_stream
from pyro_dynamics.runners.main import main
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

TEMPERATURE, STEPS, DRAWS = 0.5, 120, 400
LATENTS = {-1.0: torch.tensor([1.0, -1.0]), 1.0: torch.tensor([-1.0, 1.5])}
TINY = [
    *("--rounds", "1", "--steps", "12", "--episodes", "1", "--offline.min-steps", "20"),
    *("--ensemble.hidden", "16", "--ensemble.weight-decay", "1e-5", "1e-5", "--offline.epochs", "2"),
    *("--controller.horizon", "4", "--planner.candidates", "12", "--planner.elites", "4"),
]


class Linear(Task):
    """A state of three numbers, an action of one, and no reward."""

    state_dim, action_dim, feature_dim, target_dim = 3, 1, 3, 3

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


def linear_agent(belief: str) -> Agent:
    likelihood = LinearGaussian(4, 2, 3, 2.0, 2, torch.Generator().manual_seed(5))
    rule = KalmanUpdate(KalmanUpdateConfig(iterations=1))
    return Agent(
        HierarchicalModel(likelihood, 1, 2),
        FullRankGuide(1, 2).for_environments(1),
        Linear(),
        (torch.tensor([-1.0]), torch.tensor([1.0])),
        OfflineConfig(),
        MPCConfig(particles=2),
        lambda model, guide: BELIEFS[belief](model, guide, rule, None, TEMPERATURE),
    )


def stream(contexts: list[float], belief: str = "recursive") -> tuple[Agent, Transitions, np.ndarray, np.ndarray]:
    """An agent, what was observed at each step, and draws of its belief after it with their log density."""
    agent, generator = linear_agent(belief), torch.Generator().manual_seed(0)
    observed, latent, log_q = [], [], []
    for step, context in enumerate(contexts):
        state, action = torch.randn(1, 3, generator=generator), torch.randn(1, 1, generator=generator)
        location, scale = agent.model.likelihood(torch.cat([state, action], 1), LATENTS[context][None])
        next_state = state + location + scale * torch.randn(1, 3, generator=generator)
        zero = torch.zeros(1, dtype=torch.long)
        observed.append(Transitions(state, action, next_state, torch.zeros(1), zero, zero + step))
        agent.observe(state, action, next_state, zero, generator)
        posterior = agent.posterior()
        with drawing_from(generator):
            draws = posterior.sample((DRAWS,))
        latent.append(draws[:, 0])
        log_q.append(posterior.log_prob(draws)[:, 0])
    return agent, Transitions.concatenate(observed), torch.stack(latent).numpy(), torch.stack(log_q).numpy()


def judged(
    agent: Agent,
    data: Transitions,
    latent: np.ndarray | None,
    log_q: np.ndarray | None,
    contexts: list[Any],
    temperature: float,
    **known: Any,
) -> StreamDiagnosis:
    return diagnose_stream(agent, Evidence(data, contexts, temperature, latent, log_q, **known))


def diagnosed(contexts: list[float], belief: str = "recursive", **options: Any) -> StreamDiagnosis:
    return judged(*stream(contexts, belief), contexts, TEMPERATURE, **options)


def test_an_exact_belief_about_what_stays_is_believed() -> None:
    found = diagnosed([1.0] * STEPS, coverage=np.full(STEPS, 0.9))
    assert (found.steps[:10], found.steps[-1]) == (list(range(9, 100, 10)), STEPS - 1)
    assert found.since == [0] * len(found.steps)
    assert max(found.k_hat) < 0.3 < found.threshold == pytest.approx(1 - 1 / math.log10(DRAWS))
    assert np.abs(found.shift).max() < 0.2
    assert (found.verdict.title, found.trouble) == ("believe", [])
    assert "covers 90% of its posterior, of which it has 1.00 to 1.00 times the width (as the exact posterior)" in (
        found.verdict.why
    )
    assert found.missed is not None
    assert found.missed.share < 0.02
    assert "a part of the posterior" not in found.verdict.why


@pytest.mark.parametrize("steps", [1, 20])
def test_states_far_outside_of_what_was_trained_on_are_named(steps: int) -> None:
    """One such step is an accident; from where on it lasts, nothing that the network says means anything."""
    agent, observed, latent, log_q = stream([1.0] * STEPS)
    agent.trained_range = torch.stack([observed.state.amin(0) - 1, observed.state.amax(0) + 1])
    plain = judged(agent, observed, latent, log_q, [1.0] * STEPS, TEMPERATURE)
    assert plain.verdict.word == "believe"
    observed.next_state[-steps:, 1] += 1e3
    found = judged(agent, observed, latent, log_q, [1.0] * STEPS, TEMPERATURE)
    far = [one for one in found.trouble if one.kind == "far"]
    assert [(one.first, one.last) for one in far] == ([] if steps == 1 else [(STEPS - 20, STEPS - 1)])
    if steps > 1:
        assert "state 1 lay between" in far[0].words
        assert "state 1 lay between" in found.verdict.text


@pytest.mark.parametrize("sent", [57.3, -1e3, 1e6])
def test_actions_far_outside_of_their_bounds_are_named(sent: float) -> None:
    agent, observed, latent, log_q = stream([1.0] * STEPS)
    observed.action[-20:, 0] = sent
    found = judged(agent, observed, latent, log_q, [1.0] * STEPS, TEMPERATURE)
    far = [one for one in found.trouble if one.kind == "far"]
    assert [(one.first, one.last) for one in far] == [(STEPS - 20, STEPS - 1)]
    assert "action 0 is" in found.verdict.text


def test_a_belief_that_is_only_wide_is_not_condemned_and_one_that_is_off_too_is() -> None:
    agent, observed, latent, log_q = stream([1.0] * STEPS)
    mean = latent.mean(1, keepdims=True)
    deviation = latent.std(1, keepdims=True)
    wide, log_q = mean + 8 * (latent - mean), log_q - 2 * math.log(8)
    found = judged(agent, observed, wide, log_q, [1.0] * STEPS, TEMPERATURE)
    assert sum(k_hat > found.threshold for k_hat in found.k_hat) > len(found.k_hat) / 2  # 400 draws are too few
    assert found.verdict.title == "believe, but over-dispersed"
    assert "times as wide as its posterior (" in found.verdict.reasons[0]
    assert "the belief was only over-dispersed" in found.verdict.why
    off = judged(agent, observed, wide + 16 * deviation, log_q, [1.0] * STEPS, TEMPERATURE)
    assert off.verdict.title.startswith("do not believe since step")


def test_the_same_belief_is_wrong_from_a_switch_on() -> None:
    switch = 60
    found = diagnosed([-1.0] * switch + [1.0] * (STEPS - switch))
    (trouble,) = found.trouble
    assert trouble.kind == "off"
    assert switch <= trouble.first <= switch + 20
    assert trouble.last == STEPS - 1
    assert found.verdict.title == f"do not believe since step {trouble.first}"
    assert found.verdict.reasons[0].startswith(f"since step {trouble.first}: the belief is off the posterior")
    k_hat = dict(zip(found.steps, found.k_hat, strict=True))
    assert max(value for step, value in k_hat.items() if step < switch) < 0.3
    assert min(value for step, value in k_hat.items() if step >= trouble.first) > found.threshold


def test_a_belief_that_forgets_is_believed_again_after_a_switch() -> None:
    found = diagnosed([-1.0] * 60 + [1.0] * 60, "window")
    assert found.verdict.title == "believe" or found.verdict.title.startswith("believe again since")
    assert found.k_hat[-1] < found.threshold


def test_a_temperature_that_was_not_used_is_noticed() -> None:
    contexts = [1.0] * 60
    assert max(judged(*stream(contexts), contexts, 0.1).k_hat) > 0.62  # the belief is overconfident for it


def test_the_truth_outside_the_decoded_region_is_reported() -> None:
    contexts = [-1.0] * 60 + [1.0] * 60
    means = np.array([[2.0, -2.1], [1.0, -1.0], [0.0, 0.2], [-1.0, 1.5], [-2.0, 3.0]])
    found = diagnosed(contexts, trained_means=means, trained_contexts=[-2.0, -1.0, 0.0, 1.0, 2.0], parameters=["tilt"])
    outside = [one for one in found.trouble if one.kind == "outside"]
    assert [one.first for one in outside] == [60]
    assert "the true tilt lies outside the belief's 94 % region" in outside[0].words
    assert np.array(found.decoded).shape == (3, STEPS)
    assert found.probe_error is not None
    assert found.verdict.title == "do not believe since step 60"


def test_low_coverage_is_reported_with_its_steps_and_needs_no_latent() -> None:
    agent, data, *_ = stream([1.0] * STEPS)
    coverage = np.concatenate([np.full(70, 0.95), np.full(50, 0.4)])
    found = judged(agent, data, None, None, [1.0] * STEPS, 1.0, coverage=coverage)
    (trouble,) = found.trouble
    assert (trouble.kind, trouble.last) == ("coverage", STEPS - 1)
    assert 70 < trouble.first < 95
    assert (found.steps, found.k_hat, found.decoded) == ([], [], None)
    well = judged(agent, data, None, None, [1.0] * STEPS, 1.0, coverage=np.full(STEPS, 0.9))
    assert well.verdict.word == "no posterior"
    assert "no latent" in well.verdict.why


def test_what_the_oracle_reset_baseline_learns_from() -> None:
    assert known_since(["a"] * 6 + ["b"] * 3) == ([0] * 6 + [6] * 3, False)
    ramp = [0.0] * 30 + [float(i) for i in range(1, 41)]
    since, windowed = known_since(ramp)
    assert windowed
    assert since[:31] == [0] * 30 + [30]
    assert since[31:] == [t - 19 for t in range(31, 70)]


def test_checkpoints_are_fewer_where_they_cost_too_much() -> None:
    assert checkpoints([0] * 45, 10, 1) == [9, 19, 29, 39, 44]
    sparse = checkpoints([0] * 2000, 10, 2000)
    assert sparse[-1] == 1999
    assert len(sparse) < len(checkpoints([0] * 2000, 10, 1))
    assert checkpoints([0] * 10, 3, 10**9) == [9]


def test_stretches_are_merged_within_their_part() -> None:
    bad = np.array([1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1], dtype=bool)
    same = np.zeros(11)
    assert stretches(bad, same, shortest=2, join=1) == [(0, 4), (8, 10)]
    assert stretches(bad, same, shortest=3, join=1) == [(8, 10)]
    assert stretches(bad, np.arange(11) >= 9, shortest=2, join=1) == [(0, 4), (9, 10)]


def test_a_probe_needs_numbers_and_contexts_to_spare() -> None:
    means = np.random.default_rng(0).normal(size=(5, 2))
    assert make_probe(means, ["a", "b", "c", "d", "e"]) == (None, None)
    assert make_probe(means[:3], [1.0, 2.0, 3.0]) == (None, None)
    assert make_probe(None, []) == (None, None)
    assert make_probe(means, means[:, 0].tolist())[1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("named", [True, False])
def test_the_figure_is_drawn_with_and_without_numbers(named: bool) -> None:
    contexts: list[Any] = [-1.0] * 30 + [1.0] * 30
    agent, data, latent, log_q = stream(contexts)
    trained: list[Any] = ["healthy", "back", "front", "knee"] if named else [-1.0, 0.0, 0.5, 1.0]
    means = np.array([[1.0, -1.0], [0.0, 0.3], [-0.5, 0.9], [-1.0, 1.5]])
    truth = ["healthy" if context < 0 else "knee" for context in contexts] if named else contexts
    found = judged(
        *(agent, data, latent, log_q, truth, TEMPERATURE),
        coverage=np.linspace(0.9, 0.4, 60),
        trained_means=means,
        trained_contexts=trained,
    )
    assert (found.decoded is None) == named
    assert draw_stream(found, truth, latent, ["tilt (degrees)"], means, trained).startswith(b"\x89PNG")
    bare = judged(agent, data, None, None, truth, 1.0, coverage=np.ones(60))
    assert draw_stream(bare, truth, None, ["tilt"], np.zeros((4, 0)), trained).startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    assert main(["train", *TINY, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def adapted(run: Path) -> Path:
    out = run / "adapt" / "one"
    assert main(["adapt", str(run), "--schedule", "0:3,5:9", "--steps", "9", "--quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture
def copy(adapted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(adapted, tmp_path / "copy"))


def test_adapt_stores_what_a_diagnosis_needs(run: Path, adapted: Path) -> None:
    found = load_adaptation(adapted)
    assert found.contexts == [3.0] * 5 + [9.0] * 4
    assert found.latent is not None
    assert found.log_q is not None
    assert (found.latent.shape, found.log_q.shape) == ((9, 402, 2), (9, 402))  # 134 of each member
    assert found.latent.dtype == np.float32
    data = found.transitions
    assert (data.state.shape, data.action.shape, data.reward.shape) == ((9, 3), (9, 1), (9,))
    assert (data.environment.tolist(), data.step.tolist()) == ([0] * 9, list(range(9)))
    assert torch.equal(data.state[1:], data.next_state[:-1])
    assert np.allclose(data.reward.numpy(), [row["reward"] for row in found.rows])
    mean, sd = (np.array([row[key] for row in found.rows]) for key in ("mean", "sd"))
    assert (np.abs(found.latent.mean(1) - mean) < 6 * sd / 20).all()
    assert found.temperature == 0.5
    assert (found.summary["checkpoint"], found.summary["steps"]) == (1, 9)
    assert found.summary["schedule"] == [[0, 3.0], [5, 9.0]]
    assert (found.summary["online"]["belief"], found.summary["online"]["update"]) == ("changepoint", "kalman")


def test_an_agent_without_a_latent_leaves_no_belief(tmp_path: Path) -> None:
    assert main(["train", *TINY, "--agent", "generalist", "--out", str(tmp_path / "run")]) == 0
    out = tmp_path / "out"
    out.mkdir()
    (out / "beliefs.npz").write_bytes(b"of another agent")
    assert main(["adapt", str(tmp_path / "run"), "--context", "5", "--steps", "3", "--quiet", "--out", str(out)]) == 0
    assert not (out / "beliefs.npz").exists()
    assert load_adaptation(out).latent is None


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as fault:
        load_adaptation(folder)
    assert len(str(fault.value).splitlines()) == 1
    return str(fault.value)


def test_folders_that_hold_no_adaptation_or_an_old_one_are_refused(copy: Path, tmp_path: Path) -> None:
    assert "holds no adaptation" in refused(tmp_path / "nowhere")
    (copy / "beliefs.npz").unlink()
    assert "older version: run adapt again" in refused(copy)
    (copy / "transitions.npz").unlink()
    assert "older version: run adapt again" in refused(copy)


def test_files_of_different_lengths_are_refused(copy: Path) -> None:
    lines = (copy / "steps.jsonl").read_text().splitlines(keepends=True)
    (copy / "steps.jsonl").write_text("".join(lines[:-1]))
    assert "same 8 steps" in refused(copy)


@pytest.mark.parametrize("field", ["state", "next_state", "action", "reward"])
def test_what_is_not_finite_is_reported_with_its_step_and_field(field: str, copy: Path) -> None:
    arrays = dict(np.load(copy / "transitions.npz"))
    arrays[field].reshape(9, -1)[4, 0] = np.nan
    np.savez(copy / "transitions.npz", **arrays)
    message = refused(copy)
    assert f"the {field} of environment 0 at step 4 is not finite" in message


def test_a_belief_that_is_not_finite_is_reported(copy: Path) -> None:
    arrays = dict(np.load(copy / "beliefs.npz"))
    arrays["log_q"][6, 3] = np.inf
    np.savez(copy / "beliefs.npz", **arrays)
    assert "log_q is not finite after step 6" in refused(copy)


def test_an_adaptation_of_another_run_is_refused(copy: Path) -> None:
    found, agent = load_adaptation(copy), linear_agent("recursive")
    with pytest.raises(UserError, match="give the run"):
        judged(agent, found.transitions, found.latent[:, :, :1], found.log_q, found.contexts, 1.0)  # type: ignore[index]
    few = stream([1.0] * 3)
    with pytest.raises(UserError, match="25 draws"):
        judged(few[0], few[1], few[2][:, :10], few[3][:, :10], [1.0] * 3, 1.0)


def test_summary_keeps_what_was_there(adapted: Path) -> None:
    summary = json.loads((adapted / "summary.json").read_text())
    assert {"run", "seed", "return", "log_likelihood", "coverage", "pit", "belief", "verdict"} <= set(summary)


def test_where_no_context_is_known_a_forgetting_belief_is_judged_by_what_it_remembers() -> None:
    """Against all steps a window is off after a switch; against its own it is the exact posterior."""
    contexts = [-1.0] * 60 + [1.0] * 30
    made = stream(contexts, "window")
    unknown: list[Any] = [None] * len(contexts)
    own = judged(*made, unknown, TEMPERATURE, window=20)
    assert own.since[-1] == len(contexts) - 20
    assert max(own.covered) == pytest.approx(0.9, abs=0.02)
    assert own.trouble == []
    assert judged(*made, unknown, TEMPERATURE).trouble


def test_a_belief_that_finds_changes_is_judged_by_the_steps_that_it_rests_on() -> None:
    contexts = [-1.0] * 60 + [1.0] * 40
    agent, data, latent, log_q = stream(contexts, "changepoint")
    begun = np.where(np.arange(100) < 66, 0, 60)  # found some steps after it
    unknown = judged(agent, data, latent, log_q, [None] * len(contexts), TEMPERATURE, begun=begun)
    assert unknown.since[-1] == 60
    assert unknown.since[unknown.steps.index(max(step for step in unknown.steps if step < 66))] == 0
    late = np.where(np.arange(100) < 66, 0, 64)
    known = judged(agent, data, latent, log_q, contexts, TEMPERATURE, begun=late)
    assert known.since[-1] == 64
    assert any("it rests on the last 36 of the 40 steps since the last change" in why for why in known.verdict.reasons)


def test_where_an_earlier_visit_is_recalled_there_are_no_checkpoints() -> None:
    contexts = [-1.0] * 30 + [1.0] * 30 + [-1.0] * 30
    agent, data, latent, log_q = stream(contexts, "changepoint")
    begun = np.where(np.arange(90) < 60, np.repeat([0, 30, 0], 30), np.arange(90) + 1)
    found = judged(agent, data, latent, log_q, contexts, TEMPERATURE, begun=begun)
    assert max(found.steps) < 60
    assert any("it rests on an earlier visit" in why for why in found.verdict.reasons)


def test_a_belief_that_drifts_has_no_posterior_to_be_compared_with_where_no_context_is_known() -> None:
    contexts = [1.0] * 60
    found = judged(*stream(contexts, "diffusion"), [None] * 60, TEMPERATURE, drifts=True)
    assert found.steps == []
    assert "it was compared with no posterior" in found.verdict.why


def test_what_is_over_is_marked_as_past_and_comes_last() -> None:
    found = diagnosed([-1.0] * 60 + [1.0] * 100, "power")  # which has forgotten in some 45 steps
    assert found.trouble
    assert found.trouble[0].first == 69
    assert found.verdict.title == f"believe, but over-dispersed since step {found.trouble[-1].last + 1}"
    marked = [why.startswith("in the past, steps ") for why in found.verdict.reasons]
    assert marked == sorted(marked)
    assert sum(marked) == len(found.trouble)
    assert found.verdict.reasons[1].startswith("after step 159 its 90 % interval covers")
