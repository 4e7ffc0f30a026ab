"""pyro-dynamics benchmark ceiling: what the planner reaches with the true dynamics, and what a context is worth."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyro_dynamics.benchmarks.belief.streams import kept_file
from pyro_dynamics.benchmarks.ceiling import CONTEXTS, Given, returns
from pyro_dynamics.benchmarks.ceiling import table as table_of
from pyro_dynamics.benchmarks.recording import Recording, Row
from pyro_dynamics.control import ICEM, ICEMConfig
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.io.files import make_folder
from pyro_dynamics.io.reuse import stored_result, write_result
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.rollouts.simulator_episode import Search
from pyro_dynamics.runners.benchmarks.common import RecordFlags


@dataclass(frozen=True)
class CeilingFlags(RecordFlags):
    """Plan with the simulator itself as the model, given the true context, the nominal one, a wrong one, or none.

    The return with the true context is the ceiling of what the planner can reach in a family, and what is lost with the
    nominal one is what a known context is worth. Nothing is trained. A planner that fails here fails with any model.
    """

    families: tuple[str, ...] = ("halfcheetah-tilt", "halfcheetah-gain")
    """Registered families, or package.module:callable for your own."""
    given: tuple[Given, ...] = CONTEXTS
    """What the planner takes for true: the true context, the nominal one, a wrong one (the trained one that is farthest
    from it), or one that it identifies: fitted to the last 20 transitions by least squares, after each step."""
    seeds: int = 10
    """Episodes in every test context."""
    steps: int = 200
    """Steps of an episode."""
    horizon: int = 15
    """Steps that are planned ahead."""
    planner: ICEMConfig = field(default_factory=lambda: ICEMConfig(candidates=56, beta=0.0, std_carry=0.5))
    """The search, iCEM; by default that of the preset realtime."""
    folder: Path = Path("runs/ceiling")
    """Where finished episodes are kept: the same command resumes after them."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds", "steps", "horizon")
        if not self.given or not self.families:
            raise UserError("--given and --families need one name or more each")


Flags = CeilingFlags


def measure_rows(flags: CeilingFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    families = [find_family(name) for name in flags.families]
    make_folder(flags.folder)
    parts = sum(len(family.test_sets) for family in families)
    rows: list[Row] = []
    with progress_bar(total=parts * flags.seeds * len(flags.given) * flags.steps, unit="step") as bar:
        for family in families:
            bar.set_description(family.name)
            rows += rows_of(family, flags, bar.update)
    names = ("seeds", "steps", "horizon")
    return {name: getattr(flags, name) for name in names} | {"planner": asdict(flags.planner)}, rows


def rows_of(family: Family, flags: CeilingFlags, on_step: Callable[[int], object]) -> Iterator[Row]:
    """A row for each set of test contexts, seed, and context given; those that are kept are taken up."""
    search = Search(lambda: ICEM(flags.planner), flags.horizon, flags.steps, flags.threads)
    for name, contexts in family.test_sets.items():
        for seed in range(flags.seeds):
            for given in flags.given:
                what = {"family": family.name, "set": name, "contexts": contexts, "given": given, "seed": seed}
                how = {"steps": flags.steps, "horizon": flags.horizon, "planner": asdict(flags.planner)}
                file = kept_file(flags.folder, f"{family.name}-{name}-{given}-{seed}", what | how, ".json")
                found = stored_result(file, what | how, "returns")
                if found is None:
                    found = returns(family, contexts, given, seed, search, lambda: on_step(1))
                    write_result(file, what | how, "returns", found)
                else:
                    on_step(flags.steps)
                yield {**what, "returns": found}


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return table_of(recording.rows)
