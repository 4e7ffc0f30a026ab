"""Guides fitted again to the network of a run as it is, for `diagnose`."""

import copy
from dataclasses import replace

from pyro_dynamics.agent import Agent
from pyro_dynamics.environments import Family
from pyro_dynamics.guides import Guide
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.common.configuration import RunConfig
from pyro_dynamics.runners.common.factory import build_guide
from pyro_dynamics.seeding import derive_generator, drawing_from
from pyro_dynamics.transitions import Transitions

RATE, STEPS, SPREAD = 0.02, 3000, 1.0
"""Fast and long enough to come from the prior to a posterior that is a hundred times narrower."""
BATCH = 64
"""Rows of a step of a guide that begins where it is to stay; larger ones take minutes."""


def fitted_to(agent: Agent, config: RunConfig, data: Transitions, seed: int) -> Agent:
    """The agent with its guide fitted to other transitions than it was, from where it stands."""
    generator = derive_generator(seed, "diagnose", "thinned")
    how = _how(config)
    how = replace(how, init_mean_std=0.0, batch_size=min(how.batch_size, BATCH))  # the number of steps is given
    with progress_bar(total=how.sizes(len(data))[0], desc="guide", unit="epoch") as bar:

        def on_epoch(epoch: int, elbo: float) -> None:
            bar.update()

        return agent.refit(data, copy.deepcopy(agent.guide), how, generator, on_epoch)


def refits(agent: Agent, config: RunConfig, family: Family, data: Transitions, count: int, seed: int) -> list[Agent]:
    """The guide fitted again from other seeds, with the network as it is; Gaussian guides start with means apart."""
    spread = 0.0 if type(agent.guide).match is Guide.match else SPREAD
    found = []
    for index in progress_bar(range(count), desc="refits", unit="fit", disable=not count):
        generator = derive_generator(seed, "diagnose", "refit", index)
        with drawing_from(generator):
            guide = build_guide(config, family, agent.task, agent.environments)
        found.append(agent.refit(data, guide, replace(_how(config), init_mean_std=spread), generator))
    return found


def _how(config: RunConfig) -> OfflineConfig:
    steps = max(STEPS, config.offline.min_steps)
    return replace(config.offline, guide_learning_rate=RATE, min_steps=steps, lr_decay=True)
