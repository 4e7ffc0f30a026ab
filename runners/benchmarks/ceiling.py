"""pyro-dynamics benchmark ceiling: what the planner reaches with the true dynamics, and what a context is worth."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyro_dynamics.benchmarks.belief.streams import kept_file
from pyro_dynamics.benchmarks.ceiling import CONTEXTS, Given, returns
from pyro_dynamics.benchmarks.ceiling import table as table_of
from pyro_dynamics.benchmarks.recording import Recording, Row, measured_before
from pyro_dynamics.control import ICEM, ICEMConfig
from pyro_dynamics.environments import Family, find_family
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.io.files import make_folder, plain
from pyro_dynamics.io.reuse import stored_result, write_result
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.rollouts.simulator_episode import Search
from pyro_dynamics.runners.benchmarks.common import RecordFlags, file_of


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
    """Where finished episodes are kept: the same command resumes after them, and after the rows that --out holds."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds", "steps", "horizon")
        if not self.given or not self.families:
            raise UserError("--given and --families need one name or more each")


Flags = CeilingFlags


def measure_rows(flags: CeilingFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    families = [find_family(name) for name in flags.families]
    make_folder(flags.folder)
    how = {"steps": flags.steps, "horizon": flags.horizon, "planner": asdict(flags.planner)}
    rows = measured_before(file_of(flags, "ceiling"), "ceiling", how)
    known = [{name: row[name] for name in row.keys() - {"returns", "measured"}} for row in rows]
    todo = [(family, what) for family in families for what in episodes(family, flags) if plain(what) not in known]
    with progress_bar(total=len(todo) * flags.steps, unit="step") as bar:
        for family, what in todo:
            bar.set_description(family.name)
            rows.append({**what, "returns": returns_in(family, what, how, flags, bar.update)})
    return {"seeds": flags.seeds, **how}, rows


def episodes(family: Family, flags: CeilingFlags) -> Iterator[Row]:
    """One for each set of test contexts, seed, and context given."""
    for name, contexts in family.test_sets.items():
        for seed in range(flags.seeds):
            for given in flags.given:
                yield {"family": family.name, "set": name, "contexts": contexts, "given": given, "seed": seed}


def returns_in(
    family: Family, what: Row, how: dict[str, Any], flags: CeilingFlags, on_step: Callable[[int], object]
) -> list[float]:
    """The returns of such an episode, ``[K]``; one that is kept is taken up."""
    name = "-".join(str(what[part]) for part in ("family", "set", "given", "seed"))
    file = kept_file(flags.folder, name, what | how, ".json")
    found = stored_result(file, what | how, "returns")
    if found is None:
        search = Search(lambda: ICEM(flags.planner), flags.horizon, flags.steps, flags.threads)
        found = returns(family, what["contexts"], what["given"], what["seed"], search, lambda: on_step(1))
        write_result(file, what | how, "returns", found)
    else:
        on_step(flags.steps)
    return found


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return table_of(recording.rows)
