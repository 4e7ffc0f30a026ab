"""Training episodes in contexts of their own: the right one everywhere, and the same after a kill."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch

import pyro_dynamics
from pyro_dynamics.agent import Agent
from pyro_dynamics.datasets.exporting import RunData
from pyro_dynamics.environments import find_family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.drawn_family import DrawnFamily, draw_contexts
from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.rollouts.rollout import rollout, uniform_policy
from pyro_dynamics.rollouts.training import record
from pyro_dynamics.runners.common.configuration import from_json, online_for, preset_config
from pyro_dynamics.runners.common.factory import action_space, build_group, load_run
from pyro_dynamics.runners.common.refits import fitted_to
from pyro_dynamics.runners.common.training_run import train_run
from pyro_dynamics.runners.main import main
from pyro_dynamics.transitions import Transitions

TINY = ["--rounds", "2", "--steps", "15", "--episodes", "1", "--offline.min-steps", "20", "--planner.candidates", "10"]
TINY += ["--planner.elites", "2", "--controller.horizon", "4", "--seed", "3", "--episode-contexts", "range"]
TINY += ["--ensemble.hidden", "16", "--ensemble.weight-decay", "0", "0", "--offline.epochs", "2"]
FAMILY = find_family("pendulum-gravity")
AGENTS = {
    "latent": [],
    "amortized": ["--guide", "amortized"],
    "generalist": ["--agent", "generalist"],
    "oracle": ["--agent", "oracle"],
}


@pytest.fixture(scope="module", params=AGENTS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / request.param
    assert main(["train", *TINY, *AGENTS[request.param], "--out", str(folder)]) == 0
    return folder


def test_every_episode_is_an_environment_in_its_own_context(run: Path) -> None:
    """The pendulum's acceleration in each stored row is that of the gravity that the run names for it."""
    folder, _, family, group = load_run(run)
    assert isinstance(family, DrawnFamily)
    drawn = [one for m in range(3) for one in draw_contexts(FAMILY, "range", 5, seed=3, m=m)]
    assert list(family.train) == drawn == [row["context"] for row in folder.metrics()]
    assert [row["environment"] for row in folder.metrics()] == list(range(15))
    assert group.agents[0].environments == 15
    columns = RunData.of(folder.transitions(), family).columns()
    assert columns["environment"].tolist() == [5 * m + i for m in range(3) for _ in range(15) for i in range(5)]
    _, sin, rate = columns["state"].T
    torque = columns["action"][:, 0].clip(-2, 2)
    change = 0.05 * (1.5 * columns["gravity"] * sin + 3 * torque)
    np.testing.assert_allclose(columns["next_state"][:, 2], (rate + change).clip(-8, 8), atol=1e-4)


def test_a_killed_run_resumes_to_the_same_digits(run: Path, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(m: int) -> None:
        if m == 1:
            raise Killed

    whole = RunFolder.open(run)
    with pytest.raises(Killed):
        train_run(from_json(whole.config), tmp_path / "run", resume=False, after_round=kill)
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    again = RunFolder.open(tmp_path / "run")
    assert again.metrics() == whole.metrics()
    for one, other in zip(again.transitions(), whole.transitions(), strict=True):
        assert all(np.array_equal(value, other.arrays()[name]) for name, value in one.arrays().items())
    ours, theirs = (load_run(folder.path)[3].fingerprint() for folder in (again, whole))
    assert ours == theirs


def test_a_run_of_more_rounds_is_the_same_run_continued(run: Path, tmp_path: Path) -> None:
    arguments = ["train", *TINY, *AGENTS[run.name], "--rounds", "1", "--out", str(tmp_path / "run")]
    assert main(arguments) == 0
    assert main(["train", "--resume", str(tmp_path / "run"), "--rounds", "2"]) == 0
    assert RunFolder.open(tmp_path / "run").metrics() == RunFolder.open(run).metrics()


def test_an_oracle_is_given_the_context_of_each_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it acts, and of all episodes so far while it trains."""
    acted, trained, act, train = [], [], Agent.act, Agent.train

    def watched_act(self: Agent, *arguments: object) -> object:
        acted.append(self.posterior().mean)
        return act(self, *arguments)  # type: ignore[arg-type]

    def watched_train(self: Agent, *arguments: object) -> object:
        trained.append(self.posterior().mean)
        return train(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Agent, "act", watched_act)
    monkeypatch.setattr(Agent, "train", watched_train)
    assert main(["train", *TINY, "--agent", "oracle", "--out", str(tmp_path / "run")]) == 0
    rounds = [torch.tensor(FAMILY.encode(draw_contexts(FAMILY, "range", 5, 3, m))).float() for m in range(3)]
    for m in (1, 2):
        for given in acted[15 * (m - 1) : 15 * m]:
            torch.testing.assert_close(given, rounds[m])
        torch.testing.assert_close(trained[m - 1], torch.cat(rounds[:m]))


def test_the_commands_take_such_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--steps", "4", "--contexts", "3", "9"]) == 0
    assert main(["adapt", str(run), "--schedule", "0:3,3:9", "--steps", "6", "--quiet"]) == 0
    assert main(["diagnose", str(run), "--draws", "100", "--rows", "200", "--horizon", "3", "--particles", "20"]) == 0
    (found,) = run.glob("diagnose*/diagnostics.json")
    verdicts = json.loads(found.read_text())["verdicts"]
    newest = [label(one) for one in draw_contexts(FAMILY, "range", 5, 3, 2)]
    assert [verdict["environment"] for verdict in verdicts] == newest
    assert main(["share", str(run), "--out", str(tmp_path / "run.zip")]) == 0
    with ZipFile(tmp_path / "run.zip") as shared:
        (card,) = [shared.read(name).decode() for name in shared.namelist() if name.endswith("README.md")]
    assert "15 episodes, each in a context of its own" in card
    assert pyro_dynamics.load(run, context=3.0).config["episode_contexts"] == "range"
    calibrated = main(["calibrate", str(run), "--temperatures", "1", "0.5"])
    assert calibrated == (2 if run.name in ("generalist", "oracle") else 0)  # which believe nothing


def test_a_checkpoint_of_an_earlier_round_has_the_environments_of_then(tmp_path: Path) -> None:
    assert main(["train", *TINY, "--keep-checkpoints", "1", "--out", str(tmp_path / "run")]) == 0
    _, _, family, group = load_run(tmp_path / "run", 1)
    assert len(family.train) == group.agents[0].environments == 10


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--agent", "specialist"], "an environment of its own, which would be one episode"),
        (["--agent", "last-layer"], "environments with several episodes"),
        (["--guide", "flow"], "--guide flow cannot be: choose amortized, or a Gaussian"),
        (["--guide", "point"], "--guide point cannot be"),
        (["halfcheetah-crippled"], "have no range: give --episode-contexts list"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *flags, "--episode-contexts", "range", "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_start_from_logs_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TINY, "--start-from", str(run), "--out", str(tmp_path / "run")]) == 2
    assert "leave out --episode-contexts" in capsys.readouterr().err


def test_another_seeds_contexts_in_a_run_are_found_out(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"seed": 4}))
    with pytest.raises(UserError, match="was trained under"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize("guide", list(GUIDES))
def test_agents_over_more_environments_take_over_all_that_was_learned(guide: str) -> None:
    """Of every guide, whether or not a training would let it: networks, beliefs, and the optimiser's moments."""
    chosen = preset_config("pendulum-gravity", "quick")
    short = replace(chosen.offline, min_steps=5, epochs=1)
    config = replace(chosen, guide=guide, guide_config=GUIDES.find(guide).Config(), offline=short)
    config = replace(config, online=online_for(guide, config.online))
    space = action_space(FAMILY, 10)
    few, more = (build_group(config, DrawnFamily.of(FAMILY, "range", rounds, 5, 0), space) for rounds in (1, 2))
    envs = FAMILY.make_vector(FAMILY.train, 10)
    policy = uniform_policy(space, 5, torch.Generator().manual_seed(0))
    few.train(record(list(rollout(envs, policy, range(5))), torch.arange(5)), torch.Generator(), lambda *_: None)
    old, new = few.agents[0], more.agents[0]
    fresh = {name: value.clone() for name, value in new.guide.own_tensors().items()}
    few.extend(more)
    assert few.agents[0] is new
    assert few.agents[0].environments == 10
    for name, value in old.model.state_dict().items():
        torch.testing.assert_close(new.model.state_dict()[name], value)
    own = old.guide.own_tensors()
    for name, value in new.guide.own_tensors().items():
        torch.testing.assert_close(value[:5], own[name])
        torch.testing.assert_close(value[5:], fresh[name][5:])
    shared = {name: value for name, value in old.guide.state_dict().items() if name not in own}
    for name, value in shared.items():
        torch.testing.assert_close(new.guide.state_dict()[name], value)
    found = new.offline.optimiser.state_dict()["state"]
    for index, entry in old.offline.optimiser.state_dict()["state"].items():
        kept, had = found[index]["exp_avg"], entry["exp_avg"]
        if kept.dim():
            torch.testing.assert_close(kept[: len(had)], had)
            assert not kept[len(had) :].any()


@pytest.mark.slow
def test_new_environments_are_inferred_by_their_own_episodes_alone(tmp_path: Path) -> None:
    """With the networks fixed their beliefs are where a training of the guide alone brings them; the others stay."""
    flags = ["--rounds", "2", "--steps", "60", "--offline.min-steps", "600", "--offline.polish", "0"]
    assert main(["train", *TINY, *flags, "--no-calibrate", "--out", str(tmp_path / "run")]) == 0
    folder, config, _, group = load_run(tmp_path / "run")
    agent, data = group.agents[0], Transitions.concatenate(folder.transitions())
    posterior = agent.posterior()
    best = fitted_to(agent, replace(config, offline=replace(config.offline, min_steps=2000)), data, 0).posterior()
    assert (posterior.mean - best.mean)[10:].abs().le(3 * best.stddev[10:]).all()
    torch.testing.assert_close(posterior.stddev[10:], best.stddev[10:], rtol=0.5, atol=0.02)
    before = {name: value.clone() for name, value in agent.guide.own_tensors().items()}
    agent.infer_new(data.select(data.environment >= 10), 10)
    for name, value in agent.guide.own_tensors().items():
        assert torch.equal(value[:10], before[name][:10])
