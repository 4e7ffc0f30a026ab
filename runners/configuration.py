"""The configuration of a run, and the presets of each family."""

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

import cattrs
import tyro

from pyro_dynamics.control import CEMConfig, MPCConfig
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.guides import DiagonalConfig
from pyro_dynamics.inference import OfflineConfig, StreamingConfig
from pyro_dynamics.models import EnsembleConfig

Preset = Literal["quick", "cpu", "paper"]


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the numbers of a run.

    The flags' defaults are those of the chosen preset: `quick` shows the method in minutes, `cpu` is for real work on
    two cores, `paper` has the paper's and PETS's settings.
    """

    family: tyro.conf.Positional[str] = "pendulum-gravity"
    """The family of environments; `pyro-dynamics families` lists them."""
    preset: Preset = "quick"
    """Where the other flags' defaults come from."""
    agent: Literal["latent", "generalist", "specialist"] = "latent"
    """latent: one model, a latent for each environment; generalist: one model, none; specialist: a model each."""
    guide: Literal["diagonal"] = "diagonal"
    """Family of the posterior over latents."""
    seed: int = 0
    """Names every random stream of the run."""
    rounds: int = 15
    """Rounds of training and acting, after round 0, which acts at random."""
    steps: int = 200
    """Steps of an episode."""
    episodes: int = 1
    """Episodes in every environment and round."""
    latent_dim: int = 2
    """Size d of each environment's latent; only the latent agent has one."""
    update_while_training: bool = False
    """Update the belief after every step of training episodes too (Algorithm 1), not only when adapting."""
    keep: tuple[int, ...] = ()
    """Rounds whose checkpoints are kept, beside the newest."""
    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    guide_config: Annotated[DiagonalConfig, tyro.conf.arg(name="guide")] = field(default_factory=DiagonalConfig)
    offline: OfflineConfig = field(default_factory=OfflineConfig)
    streaming: StreamingConfig = field(default_factory=StreamingConfig)
    controller: MPCConfig = field(default_factory=MPCConfig)

    def __post_init__(self) -> None:
        require_positive(self, "rounds", "steps", "episodes", "latent_dim")


def to_json(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain data."""
    return asdict(config)


def from_json(data: dict[str, Any]) -> RunConfig:
    """The configuration that :func:`to_json` gave.

    Raises:
        UserError: if the data is something else.
    """
    try:
        return cattrs.Converter(forbid_extra_keys=True).structure(data, RunConfig)
    except Exception as fault:  # cattrs raises a group with one error for each field
        raise UserError(f"config.json is not a configuration: {'; '.join(cattrs.transform_error(fault))}") from None


def preset_config(family: str, preset: Preset) -> RunConfig:
    """The configuration of a family's preset."""
    cheetah = family.startswith("halfcheetah")
    config = {"quick": _quick, "cpu": _cpu, "paper": _paper}[preset](cheetah)
    return replace(config, family=family, preset=preset)


def _quick(cheetah: bool) -> RunConfig:
    """A few minutes on two cores; on HalfCheetah a look at the machinery, not a good gait."""
    if cheetah:
        return replace(_cpu(cheetah), rounds=3, steps=100)
    return RunConfig(
        rounds=2,
        steps=200,
        episodes=3,
        ensemble=EnsembleConfig(members=3, hidden=(64, 64), weight_decay=(1e-5, 1e-5, 1e-5)),
        offline=OfflineConfig(5e-3, 5e-3, batch_size=64, min_steps=1000, decay=True),
        controller=MPCConfig(horizon=25, particles=3, cem=CEMConfig(candidates=100, elites=10, iterations=4)),
    )


def _cpu(cheetah: bool) -> RunConfig:
    """Real learning on two cores: short episodes and a small planner."""
    if not cheetah:
        return replace(_quick(cheetah), rounds=8)
    return RunConfig(
        rounds=12,
        steps=200,
        ensemble=EnsembleConfig(hidden=(128, 128, 128), weight_decay=(2.5e-5, 5e-5, 7.5e-5, 1e-4)),
        offline=OfflineConfig(5e-3, 5e-3, batch_size=64, min_steps=2000, decay=True),
        controller=MPCConfig(horizon=15, particles=5, cem=CEMConfig(candidates=100, elites=10, iterations=3)),
    )


def _paper(cheetah: bool) -> RunConfig:
    """The paper's and PETS's settings: 80 rounds, full episodes, 500 candidates x 20 particles x 30 steps x 5."""
    return RunConfig(
        rounds=80,
        steps=1000 if cheetah else 200,
        update_while_training=True,
        keep=(15, 40, 80),
    )
