"""What `pyro-dynamics reproduce` trains and measures: the paper's protocol, at several scales."""

from dataclasses import dataclass, replace
from typing import Literal

from pyro_dynamics.control import ICEMConfig, MPCConfig
from pyro_dynamics.environments import Schedule, find_family
from pyro_dynamics.guides import AmortizedConfig
from pyro_dynamics.rollouts.evaluation import BeliefAblation
from pyro_dynamics.runners.common.configuration import RunConfig, online_for, preset_config

Scale = Literal["quick", "cpu", "paper-length", "paper"]

TRAINED = ("latent", "generalist", "specialist", "oracle", "encoder")
"""Agents with a training of their own. The oracle is given the true context; the encoder computes its latent from the
last 10 steps, as CaDM does."""

BELIEF_ABLATIONS = {
    "latent": BeliefAblation(),
    "oracle-reset": BeliefAblation(reset_on_change=True),
    "prior-only": BeliefAblation(updates=False),
    "shuffled": BeliefAblation(shuffled=True),
}
"""The latent agent's beliefs on test: the paper's, and three baselines."""


@dataclass(frozen=True)
class Protocol:
    """The settings of a reproduction that, with the seeds, determine its numbers and files.

    Attributes:
        family: the main family; the paper's is HalfCheetah on slopes.
        rounds: of training, one episode in each environment a round.
        checkpoints: rounds whose agents are measured; the paper's are 15, 40 and 80.
        steps: of an episode.
        test_episodes: of continued learning in each test context; the last one is the score.
        dynamic_episodes: of continued learning where the context changes in mid-episode.
        random_episodes: of random actions in each context.
        ablation: the family that trains on two contexts only, if there is one.
        ablation_rounds: of training on it, after which it is measured; the paper's are 100.
        influence: further families, whose hidden parameter explains less or more variance of the next step.
        influence_rounds: of training on those.
        baselines: further trained agents, of :data:`TRAINED`.
    """

    family: str
    rounds: int
    checkpoints: tuple[int, ...]
    steps: int
    test_episodes: int = 3
    dynamic_episodes: int = 5
    random_episodes: int = 50
    ablation: str | None = "halfcheetah-tilt-6"
    ablation_rounds: int = 20
    influence: tuple[str, ...] = ("halfcheetah-tilt-12", "halfcheetah-gain", "halfcheetah-mass-damping")
    influence_rounds: int = 10
    baselines: tuple[str, ...] = ("oracle", "encoder")

    def dynamic(self) -> tuple[str, Schedule]:
        """From the second training context to the last but one at half of the episode; the paper's -6 to 6 degrees."""
        family = find_family(self.family)
        text = f"0:{family.train[1]:g},{self.steps // 2}:{family.train[-2]:g}"
        return text, family.parse_schedule(text)

    def rounds_of(self, family: str) -> int:
        """Rounds of training on a family."""
        if family == self.ablation:
            return self.ablation_rounds
        return self.influence_rounds if family in self.influence else self.rounds

    def checkpoints_of(self, family: str) -> tuple[int, ...]:
        """The rounds at which agents of a family are measured: on the further ones the last."""
        return self.checkpoints if family == self.family else (self.rounds_of(family),)


PROTOCOLS: dict[str, Protocol] = {
    "quick": Protocol("pendulum-gravity", 2, (1, 2), 20, 1, 2, 5, ablation=None, influence=()),
    "cpu": Protocol("halfcheetah-tilt", 20, (4, 10, 20), 200, test_episodes=2),
    "paper-length": Protocol(
        family="halfcheetah-tilt",
        rounds=15,
        checkpoints=(4, 8, 15),
        steps=1000,
        test_episodes=2,
        dynamic_episodes=3,
        random_episodes=20,
        ablation=None,
        influence=("halfcheetah-gain",),
        influence_rounds=15,
        baselines=("oracle",),
    ),
    "paper": Protocol("halfcheetah-tilt", 80, (15, 40, 80), 1000, ablation_rounds=100, influence_rounds=40),
}


def run_config(scale: Scale, family: str, agent: str, seed: int) -> RunConfig:
    """How an agent of a reproduction is trained.

    `quick` is a smoke test and learns almost nothing, `cpu` is the preset `realtime` with more rounds, compiled
    training and its own planner, `paper-length` is the same in the paper's episodes of 1000 steps, up to the paper's
    first checkpoint, and `paper` is the preset of that name.
    """
    protocol = PROTOCOLS[scale]
    config = preset_config(family, scale if scale == "quick" or scale == "paper" else "realtime")
    if scale == "quick":
        search, controller = ICEMConfig(candidates=20, elites=4, iterations=2), MPCConfig(horizon=6, particles=3)
        config = replace(config, episodes=1, planner_config=search, controller=controller)
        config = replace(config, offline=replace(config.offline, min_steps=60))
    if scale in ("cpu", "paper-length"):
        # Half the search of `realtime`, as in the recorded results.
        offline, planner = replace(config.offline, compiled=True), ICEMConfig(candidates=28, elites=6, beta=0.0)
        config = replace(config, offline=offline, planner_config=planner)
    config = replace(
        config,
        agent="latent" if agent == "encoder" else agent,  # type: ignore[arg-type]  # one of TRAINED
        seed=seed,
        steps=protocol.steps,
        rounds=protocol.rounds_of(family),
        keep_checkpoints=protocol.checkpoints_of(family),
    )
    if agent == "encoder":
        online = online_for("amortized", config.online)
        config = replace(config, guide="amortized", guide_config=AmortizedConfig(), online=online)
    return config
