"""Guides swapped on a trained network, each weighed by k-hat, and compared by ArviZ's ``compare``."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import arviz_stats
from xarray import DataTree

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.diagnostics.diagnosis import posterior_quality
from pyro_dynamics.diagnostics.posterior.datatree import of_environment
from pyro_dynamics.io.tables import markdown_table

HEAD = ("guide", "k-hat", "effective draws", "width", "elpd, nats", "se", "less the best", "its se")


def compare(trees: Mapping[str, DataTree]) -> list[Row]:
    """Each guide in each environment.

    Args:
        trees: for each guide's name its weighted draws, with pointwise log-likelihoods.
    """
    qualities = {name: posterior_quality(tree) for name, tree in trees.items()}
    labels = next(iter(trees.values()))["posterior"].coords["environment"].to_numpy()
    rows = []
    for k, label in enumerate(labels):
        compared = _leave_one_out({name: of_environment(tree, label) for name, tree in trees.items()})
        for name in trees:
            found, row = qualities[name][k].importance, compared.loc[name]
            rows.append(
                {
                    "context": str(label),
                    "guide": name,
                    "k_hat": float(found.k_hat),
                    "effective": float(found.effective),
                    "width": [float(spread) for spread in found.spread],
                    "elpd": float(row["elpd"]),
                    "se": float(row["se"]),
                    "elpd_diff": float(row["elpd_diff"]),
                    "dse": float(row["dse"]),
                }
            )
    return rows


def _leave_one_out(trees: Mapping[str, DataTree]) -> Any:
    """ArviZ's table of one environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about k-hat, which is in the table
        return arviz_stats.compare(
            {
                name: arviz_stats.loo_approximate_posterior(
                    tree,
                    tree["sample_stats"]["log_p"],
                    tree["sample_stats"]["log_q"],
                    pointwise=True,
                    var_name="delta",
                )
                for name, tree in trees.items()
            }
        )


def table(rows: Sequence[Row], axis: str) -> str:
    """As Markdown.

    Args:
        rows: as :func:`compare` gives them.
        axis: name and unit of the hidden parameter.
    """
    lines = []
    for row in rows:
        width = " ".join(f"{spread:.2f}" for spread in row["width"])
        cells = [row["context"], row["guide"], f"{row['k_hat']:.2f}", f"{row['effective']:.0f}", width]
        numbers = [f"{row['elpd']:.1f}", f"{row['se']:.1f}", f"{row['elpd_diff']:.2f}", f"{row['dse']:.2f}"]
        lines.append([*cells, *numbers])
    return markdown_table((axis, *HEAD), lines, words=2)
