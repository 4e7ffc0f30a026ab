"""A guide, planner, belief and update of one's own: named as module:Class, by every command that takes one."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, DiagonalGuide
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.registry import Registry
from pyro_dynamics.runners import sweep, train
from pyro_dynamics.runners.common.configuration import OnlineConfig
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.runners.fit import parse as parse_fit
from pyro_dynamics.runners.main import main
from pyro_dynamics.runners.track import online_config

EXTENDING = (Path(__file__).parents[2] / "docs/how-to/extend.md").read_text()
SMALL = [
    *("--rounds", "1", "--steps", "10", "--episodes", "1", "--offline.min-steps", "20", "--offline.epochs", "1"),
    *("--ensemble.hidden", "8", "--ensemble.weight-decay", "0", "0", "--controller.horizon", "3"),
]
PARTS = """
import random
from dataclasses import dataclass, replace

import numpy
import torch
from pyro import distributions
from pyro_dynamics.control import Planner
from pyro_dynamics.guides import Guide
from pyro_dynamics.inference import Belief, SVIUpdate


@dataclass(frozen=True)
class Settings:
    scale: float = 0.1
    learned: bool = True


class Own(Guide):
    Config = Settings

    def __init__(self, environments, latent_dim, config=Settings()):
        super().__init__(environments, latent_dim)
        self.config = config
        self.location = torch.nn.Parameter(torch.zeros(environments, latent_dim))
        self.log_scale = torch.nn.Parameter(torch.full((environments, latent_dim), config.scale).log())

    def posterior(self):
        return distributions.Laplace(self.location, self.log_scale.exp()).to_event(1)

    def for_environments(self, environments):
        return type(self)(environments, self.latent_dim, replace(self.config, scale=1.0))


@dataclass(frozen=True)
class NoScale:
    scale: float = 0.1

    def __post_init__(self):
        raise ValueError("no scale is right")


class Refusing(Own):
    Config = NoScale


@dataclass(frozen=True)
class NoNumber:
    scale: float = float("nan")


class NotFinite(Own):
    Config = NoNumber


class Extra(Own):
    def __init__(self, environments, latent_dim, config, extra):
        super().__init__(environments, latent_dim, config)


@dataclass(frozen=True)
class FewSteps(SVIUpdate.Config):
    steps: int = 2


class OwnUpdate(SVIUpdate):
    Config = FewSteps


class NotIndependent(Own):
    def posterior(self):
        return distributions.Laplace(self.location, self.log_scale.exp())


class Shared(Own):
    def posterior(self):
        return distributions.Normal(self.location.mean(0), 1.0).to_event(1)


class Point(Own):
    def posterior(self):
        return distributions.Delta(self.location, event_dim=1)


class HonestPoint(Point):
    has_density = False


class Nothing(Guide):
    Config = Settings
    __init__ = lambda self, environments, latent_dim, config: Guide.__init__(self, environments, latent_dim)
    posterior = lambda self: distributions.Normal(torch.zeros(self.environments, self.latent_dim), 1.0).to_event(1)
    for_environments = lambda self, environments: Nothing(environments, self.latent_dim, None)


class SharedByOversight(Own):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.weight = torch.nn.Parameter(torch.zeros(3))


class Tensor(Own):
    def posterior(self):
        return self.location


class Discrete(Own):
    def posterior(self):
        return distributions.Poisson(self.log_scale.exp()).to_event(1)


class Unsettled(Own):
    Config = None


class Thawed(Own):
    @dataclass
    class Config:
        scale: float = 0.1


class Demanding(Own):
    @dataclass(frozen=True)
    class Config:
        scale: float


class Listing(Own):
    @dataclass(frozen=True)
    class Config:
        scales: object = (torch.ones(1),)


class Bare(Guide):
    Config = Settings
    posterior = Own.posterior


class WithoutSettings(Own):
    def __init__(self, environments, latent_dim):
        super().__init__(environments, latent_dim)


@dataclass(frozen=True)
class Search:
    pass


class Single(Planner):
    Config = Search

    def plan(self, objective, shape, generator):
        return torch.zeros(shape[1:])


class Loose(Belief):
    Config = Search

    def prior(self, posterior, seen):
        return distributions.Normal(posterior.mean, posterior.stddev)


class Empty(Belief):
    Config = Search

    def prior(self, posterior, seen):
        return None


class Silent(Empty):
    def posterior(self):
        return None


class WithFloor(Belief):
    Config = Search

    def prior(self, posterior, seen):
        return self.normal(posterior.mean, posterior.stddev.clamp(min=0.1))

    def normal(self, mean, stddev):
        return distributions.Normal(mean, stddev).to_event(1)


class Widening(WithFloor):
    def prior(self, posterior, seen):
        return self.normal(posterior.mean, 1.05 * posterior.stddev)


class Returning(WithFloor):
    def prior(self, posterior, seen):
        return self.normal(0.9 * posterior.mean, posterior.stddev)


class Reversed(WithFloor):
    def prior(self, posterior, seen):
        return self.normal(posterior.mean, torch.where(seen[:, None], posterior.stddev, 2 * posterior.stddev))


class Keeping(WithFloor):
    def prior(self, posterior, seen):
        return self.normal(posterior.mean, torch.where(seen[:, None], 2 * posterior.stddev, posterior.stddev))


class Drawing(Planner):
    Config = Search

    def plan(self, objective, shape, generator):
        plan = 0.1 * self.draw(shape, generator).clamp(-1, 1).float()
        self.mean = plan + 0.01 * self.start(shape, generator)
        return plan

    def draw(self, shape, generator):
        return torch.randn(shape, generator=generator)


class OfTorch(Drawing):
    def draw(self, shape, generator):
        return torch.randn(shape)


class OfNumpy(Drawing):
    def draw(self, shape, generator):
        return torch.from_numpy(numpy.random.rand(*shape))


class OfPython(Drawing):
    def draw(self, shape, generator):
        return torch.full(shape, random.random())


class OfTheSystem(Drawing):
    def draw(self, shape, generator):
        return torch.from_numpy(numpy.random.default_rng().random(shape))


class Seeding(Drawing):
    def draw(self, shape, generator):
        torch.manual_seed(0)
        return torch.randn(shape)


class Forgetful(Drawing):
    def plan(self, objective, shape, generator):
        return torch.full(shape, 0.5)


class Beginning(Drawing):
    def plan(self, objective, shape, generator):
        return self.start(shape, generator) + 0.5


class WithoutMemory(Forgetful):
    def plans(self):
        return {}


guide = Own(1, 1)
"""


def block(start: str, language: str) -> str:
    """The first block of a language in docs/how-to/extend.md after ``start``."""
    found = re.search(rf"```{language}\n(.*?)```", EXTENDING[EXTENDING.index(start) :], re.DOTALL)
    assert found is not None
    return found.group(1)


def flags_of(line: str, first: str) -> list[str]:
    """The words of a command in docs/how-to/extend.md from the flag ``first`` on."""
    words = line.split()
    assert words[0] == "pyro-dynamics"
    return words[words.index(first) :]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder holds parts for these tests, and those of docs/how-to/extend.md."""
    folder, before = tmp_path_factory.mktemp("own"), list(sys.path)
    (folder / "own_parts.py").write_text(PARTS)
    (folder / "my_planner.py").write_text(block("## A planner", "python"))
    (folder / "my_belief.py").write_text(block("## A belief", "python"))
    (folder / "broken.py").write_text("1 / 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder
    sys.path[:] = before
    for name in ("own_parts", "my_planner", "my_belief"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    """A run whose guide, planner, belief and update are all of the user's own."""
    guide = ["--guide", "own_parts:Own", "--guide.scale", "0.2", "--guide.no-learned"]
    planner = flags_of(block("## A planner", "sh"), "--planner")
    online = ["--belief", "my_belief:FloorBelief", "--update=own_parts:OwnUpdate", "--update.samples", "3"]
    assert main(["train", *SMALL, *guide, *planner, *online, "--out", str(home / "run")]) == 0
    return home / "run"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which a command is refused; a progress bar may stand above it."""
    capsys.readouterr()
    assert main(arguments) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line and "%|" not in line]
    return line


# By command


def test_words_and_settings_are_stored_and_found_again(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    assert (config["family"], config["guide"]) == ("pendulum-gravity", "own_parts:Own")
    assert config["guide_config"] == {"scale": 0.2, "learned": False}
    assert (config["planner"], config["planner_config"]) == ("my_planner:RandomShooting", {"candidates": 50})
    assert config["online"]["belief_config"] == {"floor": 0.1}
    assert (config["online"]["update_config"]["steps"], config["online"]["update_config"]["samples"]) == (2, 3)
    agent = load_run(run)[-1].agents[0]
    parts = (agent.guide, agent.controller.planner, agent.belief, agent.belief.update_rule)
    assert [type(part).__name__ for part in parts] == ["Own", "RandomShooting", "FloorBelief", "OwnUpdate"]
    assert agent.belief.posterior().stddev.min() > 0


def test_every_command_takes_them(run: Path, tmp_path: Path) -> None:
    acting = ["--context", "5", "--steps", "3", "--quiet", "--out", str(tmp_path / "adapt")]
    adapting, tracking = block("## A belief", "sh").splitlines()
    assert main(["adapt", str(run), *acting, *flags_of(adapting, "--belief")]) == 0
    online = json.loads((tmp_path / "adapt/summary.json").read_text())["online"]
    assert (online["belief"], online["belief_config"]) == ("my_belief:FloorBelief", {"floor": 0.2})
    assert main(["adapt", str(run), *acting[:-1], str(tmp_path / "svi"), "--belief", "changepoint"]) == 0
    assert main(["evaluate", str(run), "--contexts", "5", "--steps", "2", "--belief.floor", "0.3"]) == 0
    assert [file.name for file in run.glob("evaluation*")] == ["evaluation-contexts=5-steps=2-belief.floor=0.3.json"]
    track = ["track", str(run), "--schedule", "0:5,2:9", "--steps", "5", "--seeds", "2", "--out", str(tmp_path)]
    track += [*flags_of(tracking, "--beliefs"), "--updates", "own_parts:OwnUpdate"]
    assert main(track) == 0
    methods = json.loads((tmp_path / "summary.json").read_text())["methods"]
    assert list(methods)[1] == "my_belief:FloorBelief:floor=0.2 own_parts:OwnUpdate"
    assert (tmp_path / "my_belief-FloorBelief-floor=0.2-own_parts-OwnUpdate.json").is_file()


def test_a_run_resumes_with_them(run: Path) -> None:
    assert main(["train", "--resume", str(run), "--rounds", "2"]) == 0
    assert RunFolder.open(run).last_round == 2


@pytest.mark.usefixtures("home")
def test_the_flags_are_those_of_the_class(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--guide", "own_parts:Own", "--help"])
    shown = capsys.readouterr().out
    assert "--guide.scale" in shown
    assert "--guide.initial-scale" not in shown
    assert online_config("my_belief:FloorBelief", "kalman", OnlineConfig()).belief_config.floor == 0.1  # type: ignore[attr-defined]
    assert parse_fit(["data.npz", "--guide", "own_parts:Own", "--guide.scale", "3"]).run.guide_config.scale == 3  # type: ignore[attr-defined]
    assert parse_fit(["data.npz", "--guide", "own_parts:Own"]).run.online.update == "svi"  # no Gaussian


@pytest.mark.usefixtures("home")
def test_a_guide_is_no_family_wherever_it_stands() -> None:
    for arguments in (["--guide", "own_parts:Own", "cartpole-force-length"], ["--guide=own_parts:Own"]):
        flags = train.parse(arguments)
        assert flags.run.guide == "own_parts:Own"
        assert flags.run.family == (arguments[2:] or ["pendulum-gravity"])[0]


@pytest.mark.usefixtures("home")
def test_a_sweep_names_a_job_by_them() -> None:
    jobs = sweep.make_jobs(sweep.parse(["--guides", "diagonal", "own_parts:Own"]), [])
    assert [job.name for job in jobs] == [
        "pendulum-gravity/latent-diagonal-0",
        "pendulum-gravity/latent-own_parts_Own-0",
    ]
    assert jobs[1].config.guide == "own_parts:Own"
    with pytest.raises(UserError, match="unknown guide 'hope'"):
        sweep.parse(["--guides", "hope"])


# Refused


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--guide", "no_such_module:Own"], "there is no module 'no_such_module'"),
        (["--guide", "own_parts:Missing"], "the module 'own_parts' has no 'Missing'"),
        (["--guide", "./own_parts.py:Own"], "package.module:Class, without slashes or .py"),
        (["--guide", "own_parts.py:Own"], "leave out the .py: own_parts:Own"),
        (["--guide", "own_parts:guide"], "an object of type Own, no guide: it must be a class with the contract of"),
        (["--guide", "own_parts:OwnUpdate"], "a class, but no guide: it must be a class with the contract of"),
        (["--guide", "pyro_dynamics.guides:Guide"], "the contract of every guide"),
        (["--belief", "own_parts:Own"], "no belief: it must be a class with the contract of pyro_dynamics.inference"),
        (["--planner", "own_parts:Own"], "no planner: it must be a class with the contract of pyro_dynamics.control."),
        (["--update", "own_parts:Own"], "no update: it must be a class with the contract of pyro_dynamics.inference"),
        (["--guide", "own_parts:Bare"], "own_parts:Bare must write for_environments()"),
        (["--guide", "own_parts:WithoutSettings"], "must be made by (environments, latent_dim, config)"),
        (["--guide", "own_parts:Unsettled"], "own_parts:Unsettled has no Config"),
        (["--guide", "own_parts:Thawed"], "Config must be frozen"),
        (["--guide", "own_parts:Demanding"], "Config() must work, with a default for every field"),
        (["--guide", "own_parts:Refusing"], "Config() must work, with a default for every field (no scale is right)"),
        (["--guide", "own_parts:NotFinite"], "the fields of Config must be finite numbers"),
        (["--guide", "own_parts:Extra"], "must be made by (environments, latent_dim, config)"),
        (["--guide", "own_parts:Listing"], "the fields of Config must be finite numbers"),
        (["--guide", "own_parts:Nothing"], "Nothing has no parameters"),
        (
            ["--guide", "own_parts:NotIndependent"],
            "NotIndependent.posterior() has batch shape [5, 2] and event shape []",
        ),
        (["--guide", "own_parts:NotIndependent"], "add .to_event(1)"),
        (["--guide", "own_parts:Shared"], "Shared.posterior() has batch shape [] and event shape [2], and must have"),
        (["--guide", "own_parts:Shared"], "one posterior for all environments; make its parameters [5, ...]"),
        (["--guide", "own_parts:Point"], "Point.posterior() is a Delta, which has no density"),
        (["--guide", "own_parts:SharedByOversight"], "weight has shape [3], and its first dimension must be the 5"),
        (["--guide", "own_parts:Tensor"], "Tensor.posterior() gives a Parameter, not a torch Distribution"),
        (["--guide", "own_parts:Discrete"], "Discrete.posterior() is a Independent without rsample"),
    ],
)
def test_mistakes_are_one_line_that_names_the_part(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(["train", *SMALL, *arguments, "--out", str(tmp_path / "never")], capsys)
    assert not (tmp_path / "never").exists()


@pytest.mark.usefixtures("home")
def test_an_error_in_the_module_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        main(["train", "--guide", "broken:Own"])


def test_a_point_trains_and_is_refused_online(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(home / "point")
    planner = ["--planner.candidates", "8", "--planner.elites", "3"]
    assert main(["train", *SMALL, *planner, "--guide", "own_parts:HonestPoint", "--out", out]) == 0
    assert "HonestPoint has no density" in refused(["adapt", out, "--context", "5", "--steps", "2"], capsys)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--planner", "own_parts:Single"], "Single.plan() gives [3, 1], not [2, 3, 1]"),
        (["--belief", "own_parts:Loose", "--update-while-training"], "Loose.prior() has batch shape [15, 2] and event"),
        (["--belief", "own_parts:Empty", "--update-while-training"], "Empty.prior() gives a NoneType, not a torch"),
        (["--belief", "own_parts:Silent"], "Silent.posterior() gives a NoneType, not a torch Distribution"),
    ],
)
def test_results_of_the_wrong_shape_name_the_part(
    flags: list[str], words: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(["train", *SMALL, *flags, "--update", "svi", "--out", str(tmp_path / "run")], capsys)


UNSEEN = "of environments of which nothing is seen"
GLOBAL = "draws from the global generator of"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--belief", "own_parts:WithFloor"], f"WithFloor.prior() changes the stddev {UNSEEN}"),
        (["--belief", "own_parts:Widening"], f"Widening.prior() changes the stddev {UNSEEN}"),
        (["--belief", "own_parts:Returning"], f"Returning.prior() changes the mean {UNSEEN}"),
        (["--belief", "own_parts:Reversed"], f"Reversed.prior() changes the stddev {UNSEEN}"),
        (
            ["--belief", "own_parts:WithFloor", "--belief-per=ensemble"],
            f"WithFloor.prior() changes the stddev {UNSEEN}",
        ),
        (["--planner", "own_parts:OfTorch"], f"OfTorch.plan() {GLOBAL} torch"),
        (["--planner", "own_parts:Seeding"], f"Seeding.plan() {GLOBAL} torch"),
        (["--planner", "own_parts:OfNumpy"], f"OfNumpy.plan() {GLOBAL} numpy"),
        (["--planner", "own_parts:OfPython"], f"OfPython.plan() {GLOBAL} random"),
        (["--planner", "own_parts:OfTheSystem"], "OfTheSystem.plan() gives other plans for the same generator"),
        (["--planner", "own_parts:Forgetful"], "Forgetful.plan() leaves nothing in self.mean"),
        (["--planner", "own_parts:Beginning"], "Beginning.plan() leaves nothing in self.mean"),
    ],
)
def test_what_goes_wrong_without_an_error_is_found_before_the_training(
    flags: list[str], words: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = torch.get_rng_state()
    assert words in refused(["train", *SMALL, *flags, "--update", "svi", "--out", str(tmp_path / "run")], capsys)
    assert torch.equal(torch.get_rng_state(), state)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize("planner", ["WithoutMemory", "Drawing"])
def test_parts_that_keep_to_the_contract_are_taken(planner: str, home: Path, tmp_path: Path) -> None:
    flags = ["--planner", f"own_parts:{planner}", "--belief", "own_parts:Keeping", "--update", "svi"]
    assert main(["train", *SMALL, *flags, "--out", str(tmp_path / "run")]) == 0


# Folders of others


@pytest.mark.parametrize("place", [(), ("online",)])
@pytest.mark.parametrize("kind", ["guide", "planner", "belief", "update"])
def test_a_run_folder_brings_no_code(
    kind: str,
    place: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wherever in its configuration it names the code, and if the command is given inside it."""
    (tmp_path / "brought.py").write_text("raise AssertionError('code out of a run folder was run')\n")
    monkeypatch.chdir(tmp_path)
    for word in ("brought:Part", "subprocess:Popen"):
        named = {"online": {kind: word}} if place else {kind: word}
        (tmp_path / "config.json").write_text(json.dumps({"family": "pendulum-gravity", "online": {}, **named}))
        line = refused(["adapt", ".", "--context", "5"], capsys)
        assert f"names the {kind} {word!r}" in line
    assert "brought" not in sys.modules


# The registry


def test_a_name_is_given_once() -> None:
    registry: Registry[Any] = Registry("guide", object, ())
    first = registry.register("one")(type("First", (), {}))
    assert registry.register("one")(first) is registry["one"]
    with pytest.raises(UserError, match="the guide 'one' is"):
        registry.register("one")(type("Second", (), {}))
    assert list(registry) == ["one"]


def test_registered_parts_satisfy_what_is_asked_of_ones_own() -> None:
    assert GUIDES.find("diagonal") is DiagonalGuide
    for word in ("pyro_dynamics.guides:FlowGuide", "pyro_dynamics.guides.amortized:AmortizedGuide"):
        assert GUIDES.find(word).__name__ == word.partition(":")[2]
    strange: Any = (3, None, ["diagonal"], "Diagonal")
    for word in strange:
        with pytest.raises(UserError, match="unknown guide"):
            GUIDES.find(word)
