"""Returns of trainings, by round or by context, out of the metrics that each run kept."""

from collections.abc import Sequence
from statistics import mean

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.benchmarks.returns import with_interval
from pyro_dynamics.environments import find_family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.io.tables import markdown_table


def by_round(rows: Sequence[Row]) -> str:
    """Mean return over the contexts, with a line for each run and a column for each round, as Markdown.

    Args:
        rows: one for each run, with ``command`` (of its training), ``family``, ``metrics`` (lines of ``metrics.jsonl``)
            and ``cpu_s``, the seconds of CPU time that the training took, None where it was not measured; beside it
            may be ``parts_cpu_s``, those of its parts by their words.
    """
    rounds = range(1 + max(line["round"] for row in rows for line in row["metrics"]))
    head = ["random", *(f"round {m}" for m in rounds[1:])]
    return _table(
        head, rows, [[[line for line in row["metrics"] if line["round"] == m] for m in rounds] for row in rows]
    )


def by_context(rows: Sequence[Row], since: int | None = None) -> str:
    """Mean return in each context and over all, with a line for each run, as Markdown.

    Args:
        rows: as :func:`by_round` has them, of one family.
        since: the first round that counts; by default the last one alone does.
    """
    contexts = list(dict.fromkeys(label(line["context"]) for row in rows for line in row["metrics"]))
    head = [f"{find_family(rows[0]['family']).axis}: {contexts[0]}", *contexts[1:], "mean"]
    cells = []
    for row in rows:
        first = max(line["round"] for line in row["metrics"]) if since is None else since
        lines = [line for line in row["metrics"] if line["round"] >= first]
        cells.append([*([line for line in lines if label(line["context"]) == name] for name in contexts), lines])
    return _table(head, rows, cells)


def by_command(rows: Sequence[Row]) -> str:
    """Mean return of the last round, with an interval over the seeds, and mean costs, with a line for each command.

    Args:
        rows: as :func:`by_round` has them; each command ends with its seed.
    """
    seeds: dict[str, list[Row]] = {}
    for row in rows:
        seeds.setdefault(row["command"].partition(" --seed ")[0], []).append(row)
    parts = list(dict.fromkeys(words for row in rows for words in row.get("parts_cpu_s", ())))
    lines = []
    for command, of_seeds in seeds.items():
        last = [max(line["round"] for line in row["metrics"]) for row in of_seeds]
        returns = [
            mean(line["return"] for line in row["metrics"] if line["round"] == m)
            for row, m in zip(of_seeds, last, strict=True)
        ]
        timed = [row for row in of_seeds if row["cpu_s"] is not None]
        cells = [str(len(of_seeds)), with_interval(returns), with_interval([row["cpu_s"] for row in timed])]
        for words in parts:
            shares = [row["parts_cpu_s"][words] / row["cpu_s"] for row in timed if words in row.get("parts_cpu_s", ())]
            cells.append(f"{mean(shares):.0%}" if shares else "")
        lines.append([f"`{command}`", *cells])
    head = ["run", "seeds", "return of the last round", "CPU s", *parts]
    return markdown_table(head, lines, words=1)


def _table(head: list[str], rows: Sequence[Row], cells: Sequence[Sequence[Sequence[Row]]]) -> str:
    """Each cell is the mean return of some lines of metrics; CPU times and shares stand last, if there are any."""
    timed = any(row["cpu_s"] is not None for row in rows)
    parts = list(dict.fromkeys(words for row in rows for words in row.get("parts_cpu_s", ())))
    lines = []
    for row, found in zip(rows, cells, strict=True):
        returns = [f"{mean(line['return'] for line in some):.1f}" if some else "" for some in found]
        time = ["" if row["cpu_s"] is None else f"{row['cpu_s']:.0f}"] if timed else []
        spent = row.get("parts_cpu_s", {})
        shares = [f"{spent[words] / row['cpu_s']:.0%}" if words in spent else "" for words in parts]
        lines.append([f"`{row['command']}`", *returns, *time, *shares])
    return markdown_table(["run", *head, *(["CPU s"] if timed else []), *parts], lines, words=1)
