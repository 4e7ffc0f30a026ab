"""What a line of ``metrics.jsonl`` or ``steps.jsonl`` must hold, so that nothing later stumbles over it."""

from collections.abc import Sequence
from typing import Any

from pyro_dynamics.data_files import is_context, is_count, is_number, is_numbers, parse_json


def parse_rows(text: str) -> list[dict[str, Any]]:
    """The lines of a file, each a JSON object.

    Raises:
        ValueError: naming the line that is not.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = parse_json(line)
        except ValueError as fault:
            raise ValueError(f"line {number}: {fault}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is no JSON object")
        rows.append(row)
    return rows


def require_metrics(rows: Sequence[dict[str, Any]]) -> None:
    """Check rounds of environments 0, 1, ..., the same in every round.

    Raises:
        ValueError: telling the line and the field.
    """
    dimensions: set[int] = set()
    environments: dict[int, list[int]] = {}
    for number, row in enumerate(rows, 1):
        for name in ("round", "environment"):
            _require(is_count(row.get(name)), number, name, row)
        _require(is_context(row.get("context")), number, "context", row)
        _require("return" in row and (row["return"] is None or is_number(row["return"])), number, "return", row)
        for name in ("latent_mean", "latent_sd"):
            _require(row.get(name) is None or is_numbers(row[name]), number, name, row)
            dimensions |= {len(row[name])} if row.get(name) else set()
        _require(bool(row.get("latent_mean")) == bool(row.get("latent_sd")), number, "latent_sd", row)
        for name in ("log_likelihood", "log_likelihood_wrong_latent"):  # NaN of a training that went wrong
            value = row.get(name)
            _require(value is None or isinstance(value, float) or is_number(value), number, name, row)
        environments.setdefault(row["round"], []).append(row["environment"])
    if len(dimensions) > 1:
        raise ValueError("the latents have different sizes")
    first = next(iter(environments.values()), [])
    if any(sorted(one) != list(range(len(first))) for one in environments.values()):
        raise ValueError("its rounds have not the same environments")


def require_steps(rows: Sequence[dict[str, Any]]) -> None:
    """Check the steps of one environment.

    Raises:
        ValueError: telling the line and the field.
    """
    for number, row in enumerate(rows, 1):
        _require(is_count(row.get("step")), number, "step", row)
        _require("context" in row, number, "context", row)
        _require(row["context"] is None or is_context(row["context"]), number, "context", row)
        _require(is_number(row.get("coverage")), number, "coverage", row)
        for name in ("mean", "sd"):
            same = is_numbers(row.get(name)) and len(row[name]) == len(rows[0]["mean"])
            _require(same, number, name, row)
        _require(type(row["context"]) is type(rows[0]["context"]), number, "context", row)


def _require(holds: bool, number: int, name: str, row: dict[str, Any]) -> None:
    if not holds:
        raise ValueError(f"line {number}: {name} is {str(row.get(name))[:40]}")
