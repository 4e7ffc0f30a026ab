"""From a configuration to the objects of a run: the one place that names concrete models and guides."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space

from pyro_dynamics.agent import Agent, BeliefFactory, paper_belief
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.control import Device, Precision, describe_precision, planning_dtype
from pyro_dynamics.datasets.logged_family import DataDescription, LoggedFamily
from pyro_dynamics.environments import Context, Family, find_family
from pyro_dynamics.environments.context_text import columns, label
from pyro_dynamics.environments.drawn_family import DrawnFamily
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import whole_number
from pyro_dynamics.guides import GUIDES, Guide, KnownGuide
from pyro_dynamics.inference import ChangepointConfig
from pyro_dynamics.inference.last_layer import LastLayerBelief
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.last_layer_agent import LastLayerAgent
from pyro_dynamics.models import Ensemble, HierarchicalModel, LastLayerEnsemble
from pyro_dynamics.models.planning_engine import describe_form
from pyro_dynamics.registry import make_part
from pyro_dynamics.rollouts.environment_record import EnvironmentRecord
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, from_json, in_real_time
from pyro_dynamics.runners.common.limits import check_limits
from pyro_dynamics.seeding import derive_generator, drawing_from
from pyro_dynamics.tasks import Task
from pyro_dynamics.tasks.spaces import within_float32

BATCH_ENVIRONMENTS = 4
"""In a minibatch of an amortized guide, where each episode is an environment: of 64 rows each has 16."""


def build_group(config: RunConfig, family: Family, actions: Space) -> AgentGroup:
    """Fresh agents for the family's training contexts, whose actions lie in a box."""
    count = len(family.train)
    shares = [[k] for k in range(count)] if config.agent == "specialist" else [list(range(count))]
    with drawing_from(derive_generator(config.seed, "initial weights")):
        group = AgentGroup([build_agent(config, family, actions, len(share)) for share in shares], shares)
    group.set_context(family.train)
    return group


def build_agent(config: RunConfig, family: Family, actions: Space, environments: int) -> Agent:
    """One fresh agent over a number of environments, with its weights drawn from torch's global generator."""
    task = family.make_task()
    latent_dim = latent_size(config, family)
    ensemble = (
        LastLayerEnsemble(task.input_dim, task.target_dim, config.ensemble, reported_size(config, family))
        if config.agent == "last-layer"
        else Ensemble(task.input_dim, latent_dim, task.target_dim, config.ensemble)
    )
    ensemble.planning_dtype = planning_dtype(config.precision, config.device)
    ensemble.accelerator = accelerator(config.device)
    model = HierarchicalModel(ensemble, environments, latent_dim)
    guide = build_guide(config, family, task, environments)
    bounds = within_float32(actions)
    if config.agent == "last-layer":
        belief = last_layer_belief(config.online)
        return LastLayerAgent(
            model, guide, task, bounds, config.offline, config.controller, belief, config.make_planner
        )
    belief = paper_belief if guide.context_given else config.online.factory()  # an oracle has no belief to update
    offline = config.offline
    if config.episode_contexts != "fixed" and guide.reads_transitions and not offline.batch_environments:
        offline = replace(offline, batch_environments=BATCH_ENVIRONMENTS)
    return Agent(model, guide, task, bounds, offline, config.controller, belief, config.make_planner)


def latent_size(config: RunConfig, family: Family) -> int:
    """The size d of what the network is given of each environment: a latent, nothing, or its context."""
    return {"latent": config.latent_dim, "oracle": family.encode(family.train).shape[1]}.get(config.agent, 0)


def reported_size(config: RunConfig, family: Family) -> int:
    """How many numbers are reported of a last layer: K environments differ in K - 1 directions at most."""
    return min(config.latent_dim, len(family.train) - 1)


def last_layer_belief(online: OnlineConfig) -> BeliefFactory:
    """Makes the belief about last layers: with change points, or without.

    Raises:
        UserError: if it shall forget in another way.
    """
    if online.belief not in ("changepoint", "recursive"):
        raise UserError(f"the last-layer agent has the beliefs changepoint and recursive, not {online.belief}")
    config = online.belief_config if isinstance(online.belief_config, ChangepointConfig) else None
    made: Any = partial(LastLayerBelief, config=config, temperature=online.temperature)  # it can be pickled
    return made


def build_guide(config: RunConfig, family: Family, task: Task, environments: int) -> Guide:
    """A fresh guide over a number of environments; an oracle's has to be given their contexts."""
    latent_dim = latent_size(config, family)
    if config.agent == "oracle":
        return KnownGuide(environments, latent_dim, family.encode)
    make_guide = GUIDES.find(config.guide)
    extra = {"transition_dim": task.input_dim + task.target_dim} if make_guide.reads_transitions else {}
    return make_part(make_guide, environments, latent_dim, config.guide_config, **extra)


def load_run(
    path: Path,
    checkpoint: int | None = None,
    online: OnlineConfig | None = None,
    realtime: bool = False,
    device: Device | None = None,
) -> tuple[RunFolder, RunConfig, Family, AgentGroup]:
    """A trained run with its agents as they were at a checkpoint, the newest by default, and with its own beliefs.

    Args:
        path: the run's folder.
        checkpoint: the round.
        online: other beliefs than those of the run.
        realtime: with the planner of the preset `realtime` in place of its own.
        device: where to compute; by default where the run was made, or on the processor if there is no GPU here.

    Raises:
        UserError: if the folder does not hold a run, or its checkpoint does not fit its configuration.
    """
    folder = RunFolder.open(path)
    config = from_json(folder.config)
    online = online or config.online
    check_limits(online)
    own_device: Device = config.device if torch.cuda.is_available() else "cpu"
    config = replace(in_real_time(config) if realtime else config, online=online, device=device or own_device)
    checkpoint = None if checkpoint is None else whole_number(checkpoint, "checkpoint", 0)
    family = family_of(folder, config, checkpoint)
    if checkpoint is not None and checkpoint < 1:
        raise UserError(
            f"--checkpoint must be at least 1, not {checkpoint}: round 0 acts at random, and trains nothing"
        )
    state = folder.checkpoint(checkpoint)
    group = build_group(config, family, action_space(family, config.steps))
    group.load_state_dict(state)
    if online.prior == "standard":
        group.forget_population()
    return folder, config, family, group


def family_of(folder: RunFolder, config: RunConfig, checkpoint: int | None = None) -> Family:
    """The registered family of a run, or what stands for it where the run was fitted to logged data.

    Where each episode had a context of its own, its environments are those of the rounds up to the checkpoint's.

    Raises:
        UserError: if what the run holds is of another one.
    """
    data = DataDescription.load(folder.path)
    if data is not None:
        family: Family = LoggedFamily.of(data)
    else:
        family = family_of_rounds(config, folder.last_round or 0)
    require_own(folder, family)
    if isinstance(family, DrawnFamily) and checkpoint is not None and checkpoint <= (folder.last_round or 0):
        return family_of_rounds(config, checkpoint)
    return family


def family_of_rounds(config: RunConfig, m: int) -> Family:
    """The family of a training, with the environments of its rounds up to m where they are new in each."""
    family = find_family(config.family)
    if config.episode_contexts == "fixed":
        return family
    in_a_round = len(family.train) * config.episodes
    return DrawnFamily.of(family, config.episode_contexts, m + 1, in_a_round, config.seed)


def require_own(folder: RunFolder, family: Family) -> None:
    """Refuse a run whose metrics or transitions are of other environments than its family's.

    A family of that name may have other contexts now: then the latents would have the wrong names; or give the networks
    other numbers. Whether transitions and checkpoint belong together :meth:`RunFolder.checkpoint` finds out.

    Raises:
        UserError: with both.
    """
    task = family.make_task()
    if (trained_in := EnvironmentRecord.load(folder.path)) is not None:
        trained_in.require_same_task(folder.path, family)
    trained = {row["environment"]: row["context"] for row in folder.metrics()}
    there = [trained[k] for k in sorted(trained)]
    rows, own = ([tuple(np.atleast_1d(context)) for context in contexts] for contexts in (there, family.train))
    if rows and rows != own:
        before, now = (" ".join(map(label, contexts)) for contexts in (there, family.train))
        raise UserError(
            f"{folder.path} was trained under {family.axis} {before}, and the family {family.name} has {now} now: give "
            "the family another name or train in another folder"
        )
    folder.require_sizes(len(family.train), task.state_dim, task.action_dim)  # which names environments by number


def environment_changes(
    folder: RunFolder, config: RunConfig, family: Family, step_limit: float | None = None
) -> list[str]:
    """What the family's environment does otherwise than when the run was trained, a warning each.

    Nothing is known of runs of older versions, and of fits to logged data.
    """
    trained_in = EnvironmentRecord.load(folder.path)
    return [] if trained_in is None else trained_in.differences(family, config.steps, step_limit)


def warn_of_changes(folder: RunFolder, config: RunConfig, family: Family, step_limit: float | None = None) -> None:
    """Print these warnings, for commands that act in the environment."""
    for words in environment_changes(folder, config, family, step_limit):
        print(f"warning: {words}", file=sys.stderr)


def action_space(family: Family, steps: int) -> Space:
    """The bounds of the actions: the simulator's, or those of the log."""
    if isinstance(family, LoggedFamily):
        return family.actions if family.simulator is None else action_space(family.simulator, steps)
    environments = family.make_vector(family.train[:1], steps)
    environments.close()
    return environments.single_action_space


def group_for(group: AgentGroup, family: Family, contexts: Sequence[Context | None]) -> AgentGroup:
    """The trained models with fresh beliefs about environments of the given contexts, which an oracle is given.

    Specialists share the contexts out: each goes to the one trained on the nearest context, or on the first (the
    healthy body) where contexts have no order.
    """
    if len(group.agents) == 1:
        group = AgentGroup([group.agents[0].for_environments(len(contexts))], [range(len(contexts))])
    else:
        own = [group.agents[nearest(family, context)].for_environments(1) for context in contexts]
        group = AgentGroup(own, [[k] for k in range(len(contexts))])
    group.set_context(contexts)
    return group


def accelerator(device: Device) -> torch.device | None:
    """The GPU, or None for the processor; raises UserError where a GPU is asked for and not there."""
    if device == "cpu":
        return None
    if not torch.cuda.is_available():
        raise UserError(
            "torch finds no CUDA device here (torch.cuda.is_available() is False): choose --device cpu, or install a "
            "build of torch for CUDA and its driver"
        )
    return torch.device("cuda", torch.cuda.current_device())


def describe_planning(precision: Precision, device: Device = "cpu") -> str:
    """One line for people: in which precision the networks plan, why, and whether in one pass or layer by layer."""
    if device == "cuda":
        return f"{describe_precision(precision, device)}; on {torch.cuda.get_device_name()}"
    return f"{describe_precision(precision)}; {describe_form(planning_dtype(precision))}"


def nearest(family: Family, context: Context | None) -> int:
    """Index of the training context nearest to ``context``; of the first where they have no order.

    Several parameters are measured in the ranges that were trained on.

    Raises:
        UserError: if the context is not known.
    """
    if context is None:
        raise UserError("which specialist shall predict an environment that is not known? Give it by --context")
    if not family.numeric:
        return family.train.index(context) if context in family.train else 0
    trained = columns(family.train)
    ranges = np.ptp(trained, axis=0)
    distances = np.abs(trained - columns([context])) / np.where(ranges > 0, ranges, 1.0)
    return int(np.linalg.norm(distances, axis=1).argmin())
