"""Opens a posterior.nc with ArviZ alone, where neither this project nor torch is installed; .ci/run calls it.

python open_with_arviz.py posterior.nc FOLDER_FOR_FIGURES
"""

import importlib.util
import sys
from pathlib import Path

import matplotlib
import xarray

matplotlib.use("Agg")
try:
    import arviz as az  # type: ignore[import-not-found]  # 1.x, from Python 3.12 on
except ImportError:  # on Python 3.11 the same functions stand in packages of their own
    from types import SimpleNamespace

    import arviz_plots
    import arviz_stats

    az = SimpleNamespace(**(vars(arviz_plots) | vars(arviz_stats) | {"from_netcdf": xarray.open_datatree}))


def main(file: Path, figures: Path) -> None:
    """What a person would do first."""
    for package in ("pyro_dynamics", "torch", "pyro"):
        assert importlib.util.find_spec(package) is None, f"{package} is installed here"
    tree = az.from_netcdf(file)
    assert isinstance(tree, xarray.DataTree)
    print(az.summary(tree, var_names=["e"], kind="stats").head())

    environment = str(tree["posterior"].coords["environment"].to_numpy()[0])
    rows = (tree["constant_data"]["transition_environment"] == environment).to_numpy()
    one = xarray.DataTree.from_dict(
        {
            "posterior": tree["posterior"].to_dataset().sel(environment=environment, drop=True),
            "log_likelihood": tree["log_likelihood"].to_dataset().isel(transition=rows),
        }
    )
    stats = tree["sample_stats"].sel(environment=environment)
    loo = az.loo_approximate_posterior(one, stats["log_p"], stats["log_q"], var_name="delta", pointwise=True)
    print(loo)
    assert loo.n_data_points == rows.sum()
    assert loo.approx_posterior

    figures.mkdir(parents=True, exist_ok=True)
    drawn = {
        "dist": az.plot_dist(tree, var_names=["e"]),
        "forest": az.plot_forest(tree, var_names=["e"], combined=True),
        "prior-posterior": az.plot_prior_posterior(tree, var_names=["e"]),
        "pair": az.plot_pair(one, var_names=["e"]),
        "khat": az.plot_khat(loo),
        "predictive": az.plot_ppc_dist(tree, var_names=["delta"]),
    }
    for name, figure in drawn.items():
        figure.savefig(figures / f"{name}.png")
        assert (figures / f"{name}.png").stat().st_size > 5000
    print(f"opened and drawn with Python {sys.version.split()[0]}: {', '.join(drawn)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
