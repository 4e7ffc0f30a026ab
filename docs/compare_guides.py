"""Swap the guide on a trained run and compare the two: k-hat, and ArviZ's own ``compare``. Prints Markdown.

    pyro-dynamics train                                    # makes runs/pendulum-gravity-latent-quick-0
    python docs/compare_guides.py runs/pendulum-gravity-latent-quick-0 > docs/results/guides.md

The network stays as it is; each guide is fitted to the run's transitions from the prior, for as many gradient steps.
"""

import sys
import warnings
from pathlib import Path

import arviz_stats
import torch
from tqdm import tqdm

from pyro_dynamics.diagnostics.diagnosis import posterior_quality
from pyro_dynamics.diagnostics.posterior.datatree import of_environment, to_datatree
from pyro_dynamics.guides import DiagonalGuide, FullRankGuide
from pyro_dynamics.inference import OfflineConfig
from pyro_dynamics.io.tables import markdown_head
from pyro_dynamics.runners.common.factory import load_run
from pyro_dynamics.transitions import Transitions

HOW = OfflineConfig(guide_learning_rate=0.02, batch_size=256, min_steps=4000, lr_decay=True)
DRAWS = 2000

READING = """\
Width is the guide's standard deviation over that of the weighted draws, for each latent dimension. Where the draws of
both guides are reliable (k-hat below 0.7), `compare` finds no difference, and should not: leave-one-out is corrected
for the guide, and both guides approximate the posterior of the same model. What differs is the approximation: a
diagonal guide cannot represent a correlation of the two latents, and is then narrower than the posterior in one
direction while it is wider in the other. If `compare` finds a difference between guides on the same model, the k-hat of
one of them is too large."""


def main(run: Path) -> None:
    """Fit, weigh, compare."""
    torch.set_num_threads(1)
    folder, config, family, group = load_run(run)
    agent, data = group.agents[0], Transitions.concatenate(folder.transitions()[:-1])

    trees, qualities = {}, {}
    for name, kind in tqdm({"diagonal": DiagonalGuide, "full-rank": FullRankGuide}.items(), unit="guide"):
        guide = kind(agent.environments, agent.latent_dim)
        fitted = agent.refit(data, guide, HOW, torch.Generator().manual_seed(0))
        trees[name] = to_datatree(fitted, data, draws=DRAWS, contexts=family.train, pointwise=300)
        qualities[name] = posterior_quality(trees[name])

    print(f"# Two guides on one network: {config.family}\n\n    python docs/compare_guides.py RUN\n")
    print(f"Each guide was fitted for {HOW.min_steps} steps to {len(data)} transitions; {DRAWS} draws are weighted.\n")
    head = [family.axis, "guide", "k-hat", "effective draws", "width", "elpd, nats", "se", "less the best", "its se"]
    print(markdown_head(head, words=2))
    for k, label in enumerate(trees["diagonal"]["posterior"].coords["environment"].to_numpy()):
        loos = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about k-hat, which is in the table
            for name, tree in trees.items():
                one = of_environment(tree, label)
                stats = one["sample_stats"]
                loos[name] = arviz_stats.loo_approximate_posterior(
                    one, stats["log_p"], stats["log_q"], pointwise=True, var_name="delta"
                )
            table = arviz_stats.compare(loos)
        for name in trees:
            found, row = qualities[name][k].importance, table.loc[name]
            width = " ".join(f"{spread:.2f}" for spread in found.spread)
            numbers = f"{row['elpd']:.1f} | {row['se']:.1f} | {row['elpd_diff']:.2f} | {row['dse']:.2f}"
            print(f"| {label} | {name} | {found.k_hat:.2f} | {found.effective:.0f} | {width} | {numbers} |")
    print(f"\n{READING}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
