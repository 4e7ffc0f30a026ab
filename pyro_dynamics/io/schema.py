"""What a line of ``metrics.jsonl`` or ``steps.jsonl`` holds."""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

from pyro_dynamics.data_files import AnyContext, Count, Finite, parse_json, structure

Metrics = TypedDict(
    "Metrics",
    {
        "round": Count,
        "environment": Count,
        "context": AnyContext,
        "return": Finite | None,
        "latent_mean": NotRequired[list[Finite] | None],
        "latent_sd": NotRequired[list[Finite] | None],
        "log_likelihood": NotRequired[float | None],  # NaN of a training that went wrong
        "log_likelihood_wrong_latent": NotRequired[float | None],
        "faults": NotRequired[list[str]],
    },
)


class Step(TypedDict):
    """One step of an adaptation; the context is None where it is not known."""

    step: Count
    context: AnyContext | None
    coverage: Finite
    mean: list[Finite]
    sd: list[Finite]


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
    """Check rounds of environments, whose latents have one size; raises ValueError with the line and the field."""
    _require(rows, Metrics)
    sizes = {(len(row.get("latent_mean") or ()), len(row.get("latent_sd") or ())) for row in rows} - {(0, 0)}
    if len(sizes) > 1 or any(mean != sd for mean, sd in sizes):
        raise ValueError("the latents have different sizes")


def require_steps(rows: Sequence[dict[str, Any]]) -> None:
    """Check the steps of one environment; raises ValueError with the line and the field."""
    _require(rows, Step)
    kinds = {(type(row["context"]), len(row["mean"]), len(row["sd"])) for row in rows}
    if len(kinds) > 1 or any(mean != sd for _, mean, sd in kinds):
        raise ValueError("the contexts or the latents have different sizes")


def _require(rows: Sequence[dict[str, Any]], kind: type) -> None:
    for number, row in enumerate(rows, 1):
        try:
            structure(row, kind)
        except ValueError as fault:
            raise ValueError(f"line {number}: {fault}") from None
