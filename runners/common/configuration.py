"""The configuration of a run, and the presets of each family."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import cattrs
import numpy as np
import tyro
from cattrs.gen import make_dict_structure_fn

from pyro_dynamics.agent import BeliefFactory
from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.control import PLANNERS, CEMConfig, Device, ICEMConfig, MPCConfig, Planner, Precision
from pyro_dynamics.environments import find_family
from pyro_dynamics.environments.drawn_family import EpisodeContexts
from pyro_dynamics.errors import UserError, require_not_negative, require_positive
from pyro_dynamics.guides import GUIDES, DiagonalConfig, FullRankConfig, Guide
from pyro_dynamics.inference import (
    BELIEFS,
    UPDATES,
    Belief,
    ChangepointConfig,
    KalmanUpdateConfig,
    OfflineConfig,
    RecursiveConfig,
    SVIUpdateConfig,
    Update,
)
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.models import EnsembleConfig
from pyro_dynamics.registry import Registry, make_part
from pyro_dynamics.runners.common.limits import check_limits, check_plan_limits
from pyro_dynamics.runners.common.renamed import upgraded
from pyro_dynamics.seeding import derive_seed

Preset = Literal["quick", "cpu", "realtime", "paper"]


@dataclass(frozen=True)
class OnlineConfig:
    """How the belief about an environment follows its transitions."""

    belief: Annotated[str, tyro.conf.arg(metavar=BELIEFS.choices)] = "recursive"
    """What is remembered; recursive is the paper's posterior-as-prior."""
    belief_config: Annotated[object, tyro.conf.arg(name="belief")] = field(default_factory=RecursiveConfig)
    update: Annotated[str, tyro.conf.arg(metavar=UPDATES.choices)] = "svi"
    """How the guide is fitted: svi is the paper's gradient steps; natural and kalman need a Gaussian guide and are much
    faster; natural maximises the ELBO too, and converges, kalman takes the curvature at a mode."""
    update_config: Annotated[object, tyro.conf.arg(name="update")] = field(default_factory=SVIUpdateConfig)
    temperature: float = 1.0
    """Power of the likelihood online, in (0, 1]; below 1 it makes the belief wider. `calibrate` chooses one."""
    belief_per: Literal["member", "ensemble"] = "ensemble"
    """member: each network of the ensemble infers a latent of its own, with which its particles plan, and the belief is
    their equal mixture; ensemble: all share one, as in the paper."""
    prior: Literal["learned", "standard"] = "standard"
    """Where beliefs about new environments begin. learned: a Gaussian around the latents of those that were trained on
    (empirical Bayes), or N(0, I) where the guide can become no such Gaussian; standard: N(0, I), as in the paper."""

    def factory(self) -> BeliefFactory:
        """Makes such a belief out of a model and its guide."""
        rule = make_part(UPDATES.find(self.update), self.update_config)
        kind = BELIEFS.find(self.belief)
        of_members = {"per_member": True} if self.belief_per == "member" else {}
        if of_members and "per_member" not in signature(kind).parameters:
            raise UserError(f"{kind.__name__} takes no per_member: hand it on to Belief, or give --belief-per ensemble")
        return partial(_belief, kind, rule, self, of_members)


def _belief(
    kind: type[Belief],
    rule: Update,
    online: OnlineConfig,
    of_members: dict[str, bool],
    model: DynamicsModel,
    guide: VariationalGuide,
) -> Belief:
    """A function of this module, and no closure: agents can be pickled, for another process."""
    return make_part(kind, model, guide, rule, online.belief_config, online.temperature, **of_members)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the numbers of a run.

    The flags' defaults are those of the chosen preset: `quick` shows the method in minutes, `cpu` is for real work on
    two cores, `realtime` is `cpu` with plans and updates within the real-time budget, `paper` has the settings of the
    paper and PETS.
    """

    family: tyro.conf.Positional[str] = "pendulum-gravity"
    """The family of environments: one that `pyro-dynamics families` lists, or your own as package.module:callable."""
    preset: Preset = "quick"
    """Where the other flags' defaults come from."""
    agent: Literal["latent", "generalist", "specialist", "oracle", "last-layer"] = "latent"
    """latent: one model, a latent for each environment; generalist: one model, none; specialist: a model each; oracle:
    one model that is given the true context in the latent's place, then and later, and infers nothing; last-layer: a
    generalist whose last layer is inferred in each environment, by exact Bayesian linear regression."""
    guide: Annotated[str, tyro.conf.arg(metavar=GUIDES.choices)] = "diagonal"
    """Family of the posterior over latents."""
    seed: int = 0
    """Names every random stream of the run."""
    rounds: int = 15
    """Rounds of training and acting, after round 0, which acts at random."""
    steps: int = 200
    """Steps of an episode."""
    episodes: int = 1
    """Episodes in every environment and round."""
    episode_contexts: EpisodeContexts = "fixed"
    """fixed: the family's training contexts, each an environment in all rounds; list, range: as many episodes in a
    round, each in a context of its own that is drawn from the family's list, or from the range of that (domain
    randomisation). Each is an environment with its own latent, and the belief follows every step. Not for specialists
    and last-layer."""
    latent_dim: int = 2
    """Size d of each environment's latent; of a last layer, so many numbers are reported."""
    update_while_training: bool = False
    """Update the belief after every step of training episodes too (Algorithm 1), not only when adapting."""
    calibrate: bool = False
    """Fit a factor of the predicted standard deviation of each target to each round's new episodes, which the networks
    were not trained on; it is part of the checkpoint, and used in plans, updates and diagnoses."""
    keep_checkpoints: tuple[int, ...] = ()
    """Rounds whose checkpoints are kept, beside the newest."""
    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    guide_config: Annotated[object, tyro.conf.arg(name="guide")] = field(default_factory=DiagonalConfig)
    offline: OfflineConfig = field(default_factory=OfflineConfig)
    online: Annotated[OnlineConfig, tyro.conf.arg(name="")] = field(default_factory=OnlineConfig)
    controller: MPCConfig = field(default_factory=MPCConfig)
    planner: Annotated[str, tyro.conf.arg(metavar=PLANNERS.choices)] = "cem"
    """How actions are searched for: cem is the paper's, icem needs fewer evaluations, mppi weighs all candidates."""
    planner_config: Annotated[object, tyro.conf.arg(name="planner")] = field(default_factory=CEMConfig)
    precision: Precision = "auto"
    """Of the networks in planning: auto takes bfloat16 on a GPU, and where a probe finds it much faster."""
    device: Device = "cpu"
    """Where plans, compiled updates and compiled gradients are computed: cuda takes an NVIDIA GPU (experimental: never
    run on one so far)."""

    def __post_init__(self) -> None:
        require_positive(self, "rounds", "steps", "episodes", "latent_dim")
        require_not_negative(self, "keep_checkpoints")

    def make_planner(self) -> Planner:
        """A fresh planner, as configured."""
        return make_part(PLANNERS.find(self.planner), self.planner_config)


def to_json(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain data."""
    return asdict(config)


DAMAGED = "config.json is not a configuration: {}; if another version made the run, use that one, or train again"


def from_json(data: dict[str, Any], complaint: str = DAMAGED) -> RunConfig:
    """The configuration that :func:`to_json` gave.

    Args:
        data: the configuration as plain data.
        complaint: what an error says, around the words for what is wrong.

    Raises:
        UserError: if the data is something else.
    """
    import_own_parts(data)
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook_func(lambda cls: cls is object, lambda settings, _: settings)
    converter.register_structure_hook(int, _whole)
    converter.register_structure_hook(bool, _truth)
    for cls in (OnlineConfig, RunConfig):  # the outer one last: it compiles the inner one in
        converter.register_structure_hook(cls, _with_settings(converter, cls))
    try:
        config = converter.structure(_with_named_planner(upgraded(data)), RunConfig)
    except Exception as fault:  # cattrs raises a group with one error for each field
        words = (
            str(fault)
            if isinstance(fault, UserError)
            else "; ".join(cattrs.transform_error(fault, format_exception=_words))
        )
        words = re.sub(
            r" @ \$\.?([\w.]*)", lambda where: f" (in {where[1]})" if where[1] else "", words
        )  # cattrs's paths
        raise UserError(complaint.format(words[:500])) from None
    require_sizes(config)
    return config


def _whole(value: Any, _: type) -> int:
    """A whole number as it is: ``int`` alone would take 1.5 for 1."""
    if isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise UserError(f"it must be a whole number, not {value!r}")


def _truth(value: Any, _: type) -> bool:
    """True or False as it is: ``bool`` alone would take the text False for True."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise UserError(f"it must be true or false, not {value!r}")


def _words(fault: BaseException, kind: type | None) -> str:
    """What cattrs says of a field; what a settings class says of itself is in words already."""
    return str(fault) if isinstance(fault, UserError) else cattrs.v.format_exception(fault, kind)


def import_own_parts(data: Any) -> None:
    """Import what ``config.json`` names as ``package.module:Class``: an error in there keeps its own traceback."""
    parts = [data, data.get("online")] if isinstance(data, dict) else []
    for part in (part for part in parts if isinstance(part, dict)):
        for name, registry in CHOICES.items():
            word = part.get(name)
            if isinstance(word, str) and ":" in word:
                registry.find(word)


def require_sizes(config: RunConfig) -> None:
    """Refuse settings whose arrays no machine could hold, or no stream; raises :class:`UserError` naming the first."""
    derive_seed(config.seed)
    check_limits(config)
    if not config.ensemble.hidden:
        raise UserError("--ensemble.hidden needs the width of one layer at least, as in --ensemble.hidden 64 64")
    candidates = getattr(config.planner_config, "candidates", 1)  # a planner of the user's own may have none
    check_plan_limits(candidates, config.controller.particles, config.controller.horizon)


def require_pair(config: RunConfig) -> None:
    """Refuse an update that the guide cannot be fitted by; raises :class:`UserError` saying which can."""
    if config.agent == "latent" and online_for(config.guide, config.online).update != config.online.update:
        raise UserError(
            f"--update {config.online.update} needs a Gaussian guide (diagonal, full-rank, low-rank, laplace), and "
            f"--guide {config.guide} is none: choose --update svi, or one of those"
        )
    if config.agent == "latent" and config.update_while_training and not GUIDES.find(config.guide).has_density:
        raise UserError(
            f"--update-while-training needs a guide with a density, and --guide {config.guide} has none: choose "
            "another guide, such as laplace, or leave the flag out"
        )


def _with_named_planner(data: dict[str, Any]) -> dict[str, Any]:
    """Runs from before there was a choice of planners have the settings of CEM among their controller's."""
    if "cem" not in data.get("controller", ()):
        return data
    controller = dict(data["controller"])
    return {**data, "planner": "cem", "planner_config": controller.pop("cem"), "controller": controller}


CHOICES: dict[str, Registry[Any]] = {"guide": GUIDES, "belief": BELIEFS, "update": UPDATES, "planner": PLANNERS}
"""Fields that name something which has settings of its own, in the field NAME_config."""


def _with_settings(converter: cattrs.Converter, cls: type) -> Any:
    """Structures ``cls`` with each NAME_config as the settings class of what is named."""
    plain: Any = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True)

    def structure(data: dict[str, Any], _: type) -> Any:
        data = dict(data)
        for name, registry in CHOICES.items():
            if name in data:
                settings = registry.find(data[name]).Config
                data[f"{name}_config"] = converter.structure(data.get(f"{name}_config", {}), settings)
            elif f"{name}_config" in data:
                raise UserError(f"there are settings of a {name}, and not which {name}")
        return plain(data, cls)

    return structure


def with_choices(config: Any, arguments: Sequence[str]) -> Any:
    """``config`` with the guide, belief, update and planner that the arguments name, each with its default settings.

    Done before the flags are read, so that the flags of what was chosen exist and --help shows them.

    Raises:
        UserError: if one of them does not exist, or does not satisfy its contract.
    """
    values = flag_values(arguments)
    for name, registry in CHOICES.items():
        chosen = values.get(f"--{name}")
        if chosen is None or chosen.startswith("-") or chosen == getattr(config, name, chosen):
            continue
        config = replace(config, **{name: chosen, f"{name}_config": registry.find(chosen).Config()})
    return config


def online_for(guide: str, online: OnlineConfig) -> OnlineConfig:
    """``online``, or what comes nearest to it that the guide can do."""
    family = GUIDES.find(guide)
    if family.reads_transitions:
        return OnlineConfig()
    if online.update in ("kalman", "natural") and family.match is Guide.match:  # no Gaussian
        return replace(online, update="svi", update_config=SVIUpdateConfig())
    return online


def online_defaults(arguments: Sequence[str]) -> OnlineConfig:
    """The beliefs of the run whose folder is among the arguments, changed to the belief and update that they name."""
    folder = next((Path(word) for word in arguments if (Path(word) / "config.json").is_file()), None)
    config = RunConfig() if folder is None else from_json(RunFolder.open(folder).config)
    config = in_real_time(config) if "--realtime" in arguments else config
    return with_choices(config.online, arguments)


def flag_values(arguments: Sequence[str]) -> dict[str, str]:
    """The words after flags, as --flag VALUE or --flag=VALUE; what is no flag's is harmless."""
    values = dict(pairwise(arguments))
    return values | dict(word.split("=", 1) for word in arguments if word.startswith("--") and "=" in word)


SMALL = 8
"""State and action entries of a task up to which the pendulum's network and planner are large enough."""


def preset_config(family: str, preset: Preset) -> RunConfig:
    """The configuration of a family's preset, by the size of its task: that of the cheetah, or that of the pendulum."""
    task = find_family(family).make_task()
    config = {"quick": _quick, "cpu": _cpu, "realtime": _realtime, "paper": _paper}[preset](
        task.state_dim + task.action_dim > SMALL
    )
    return replace(config, family=family, preset=preset)


CHANGEPOINT_KALMAN = OnlineConfig(
    "changepoint", ChangepointConfig(), "kalman", KalmanUpdateConfig(), belief_per="member", prior="learned"
)
"""What the presets but the paper's have: docs/results/belief.md."""


SEARCH = ICEMConfig(candidates=56, elites=10, beta=0.0, std_carry=0.5)
"""With common random numbers as good as CEM with ten times its evaluations: docs/results/planners.md."""
POLISH = 4
"""Passes over all data that bring a Gaussian guide to the optimum of its family: two to three are taken."""


def _quick(large: bool) -> RunConfig:
    """A few minutes on two cores; on a body of many joints a look at the machinery, not a good gait."""
    if large:
        return replace(_cpu(large), rounds=3, steps=100)
    return RunConfig(
        guide="full-rank",
        guide_config=FullRankConfig(),
        rounds=2,
        steps=200,
        episodes=3,
        calibrate=True,
        ensemble=EnsembleConfig(members=3, hidden=(64, 64), weight_decay=(1e-5, 1e-5, 1e-5)),
        offline=OfflineConfig(
            5e-3, 5e-3, batch_size=64, min_steps=1000, lr_decay=True, polish=POLISH, scale_noise=True
        ),
        online=replace(CHANGEPOINT_KALMAN, temperature=0.5),
        controller=MPCConfig(horizon=25, particles=3, common_noise=True),
        planner="icem",
        planner_config=SEARCH,
    )


def _cpu(large: bool) -> RunConfig:
    """Real learning on two cores: short episodes and a small planner."""
    if not large:
        quick = _quick(large)
        return replace(quick, rounds=8, offline=replace(quick.offline, compiled=True))
    return RunConfig(
        guide="full-rank",
        guide_config=FullRankConfig(),
        rounds=12,
        steps=200,
        calibrate=True,
        ensemble=EnsembleConfig(hidden=(128, 128, 128), weight_decay=(2.5e-5, 5e-5, 7.5e-5, 1e-4)),
        offline=OfflineConfig(5e-3, 5e-3, batch_size=64, min_steps=2000, lr_decay=True, polish=POLISH, compiled=True),
        online=replace(CHANGEPOINT_KALMAN, belief_config=ChangepointConfig(most_nats=2.0)),
        controller=MPCConfig(horizon=15, particles=5, common_noise=True),
        planner="icem",
        planner_config=SEARCH,
    )


COMPILES = "the first update of the belief compiles, which takes up to a minute ..."
"""Said before it, where ``--update.compiled`` is on: nothing moves until it is done."""


def in_real_time(config: RunConfig) -> RunConfig:
    """The same with a planner and an update within the real-time budget of 50 ms: docs/results/speed.md."""
    return replace(
        config,
        online=OnlineConfig("recursive", RecursiveConfig(), "svi", SVIUpdateConfig(samples=4, compiled=True)),
        controller=replace(config.controller, particles=config.ensemble.members, common_noise=True),
        planner="icem",
        planner_config=SEARCH,
    )


def _realtime(large: bool) -> RunConfig:
    """The cpu preset within the real-time budget."""
    return in_real_time(_cpu(large))


def _paper(large: bool) -> RunConfig:
    """The paper's and PETS's settings: 80 rounds, full episodes, 500 candidates x 20 particles x 30 steps x 5."""
    return RunConfig(
        rounds=80,
        steps=1000 if large else 200,
        update_while_training=True,
        keep_checkpoints=(15, 40, 80),
    )
