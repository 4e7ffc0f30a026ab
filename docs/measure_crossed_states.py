"""Does a model predict a context well only in states of that context's own episodes? Prints a Markdown table.

    python docs/measure_crossed_states.py RUN [RUN ...]

For each run: predictions from states that its last round visited, under the physics of their own training context and
under those of the other contexts, with targets from the simulator set to the same state. A model with a latent gets the
trained latent of the current physics, an oracle their context, a generalist nothing.
"""

import math
import sys
from pathlib import Path

import torch
from torch import Tensor

from pyro_dynamics.io.tables import markdown_head, markdown_row
from pyro_dynamics.reproduction.sensitivity import crossed_targets
from pyro_dynamics.runners.common.factory import load_run, set_threads
from pyro_dynamics.seeding import derive_seed

STATES = 150


def crossed_log_likelihood(path: Path) -> tuple[Tensor, Tensor]:
    """log p(s' | s, a) in nats of n states under the physics of each of K contexts ``[n, K]``, and whose they are."""
    folder, config, family, group = load_run(path)
    m = folder.last_round or 0
    data, agent = folder.transitions()[m], group.agents[0]
    seeds = [derive_seed(config.seed, "round", m, "reset", i) for i in range(len(data.episodes()))]
    some = set(torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:STATES].tolist())
    rows = [row for episode in data.episodes() for row in episode.tolist() if row in some]
    targets = crossed_targets(family, data, seeds, rows, config.steps, [1])[:, 0].float()  # [n, K, T]
    columns = []
    for k, latent in enumerate(agent.posterior().mean):
        with torch.no_grad():
            location, scale = agent.predict(data.state[rows], data.action[rows], latent.expand(1, len(rows), -1))
        each = torch.distributions.Normal(location, scale).log_prob(targets[:, k]).sum(-1)[0]  # [M, n]
        columns.append(each.logsumexp(0) - math.log(len(each)))
    return torch.stack(columns, 1), data.environment[rows]


def main() -> None:
    """Print the table."""
    set_threads(1)
    print(markdown_head(["run", "own context (nats per step)", "other contexts", "lost"], words=1))
    for path in map(Path, sys.argv[1:]):
        found, own = crossed_log_likelihood(path)
        count = found.shape[1]
        means = torch.stack([found[own == k].mean(0) for k in range(count)])  # [K, K]: states of, physics of
        at_home = means.diagonal().mean()
        elsewhere = (means.sum() - means.diagonal().sum()) / (count * (count - 1))
        numbers = (at_home, elsewhere, at_home - elsewhere)
        print(markdown_row([path.name, *(f"{value:.2f}" for value in numbers)]), flush=True)


if __name__ == "__main__":
    main()
