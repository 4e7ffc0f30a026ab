"""The engines of a plan beside each other: rows that name their machine, and the rule that decides."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_dynamics.runners.benchmarks import engines
from pyro_dynamics.runners.benchmarks.engines import Case, decision
from pyro_dynamics.runners.main import main


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("small", (16,), 20, False, 1), Case("small, drawn", (16,), 20, True, 1)]
    monkeypatch.setattr(engines, "CASES", cases)
    for form in (engines.OnnxEnsemble, engines.OpenVinoEnsemble):
        monkeypatch.setattr(form, "block", 8)  # of which the last is not full


def test_rows_name_their_machine_and_the_table_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    assert main(["benchmark", "engines", "--turns", "3", "--out", str(out)]) == 0
    first = capsys.readouterr().out
    rows = json.loads(out.read_text())["rows"]
    assert {row["case"] for row in rows} == {"small", "small, drawn"}
    for row in rows:
        assert row["times_torch"] == 1.0 or (row["way"], row["precision"]) != ("torch", "float32")
        assert row["error"] < (1e-5 if row["precision"] == "float32" else 0.02)
        assert row["cpu_s"] > 0
        assert row["threads"] == 1
        assert {"processor", "instructions", "instructions_used", "load", "version"} <= set(row)
    assert main(["benchmark", "engines", "--report", str(out)]) == 0
    assert first.endswith(capsys.readouterr().out)
    assert "By the rule here:" in first


def row(
    way: str, case: str, times_torch: float, times_c: float | None = None, precision: str = "float32"
) -> dict[str, Any]:
    return {"way": way, "case": case, "times_torch": times_torch, "times_c": times_c, "precision": precision}


@pytest.mark.parametrize(
    ("large", "few_rows", "words"),
    [(1.1, 1.14, "our C goes: fast"), (1.0, 1.16, "our C stays: fast"), (1.3, 0.9, "our C stays: fast")],
)
def test_our_c_goes_only_where_an_engine_is_as_good_in_every_case(large: float, few_rows: float, words: str) -> None:
    rows = [row("torch", case, 9.0, 9.0) for case in ("large", "few")]
    rows += [row("C", case, 1.0, 1.0) for case in ("large", "few")]
    rows += [row("fast", "large", large, large), row("fast", "few", few_rows, few_rows)]
    rows += [row("slow", case, 2.0, 2.0) for case in ("large", "few")]
    assert words in decision(rows, "float32")
    assert f"{min(large, few_rows):.2f} to {max(large, few_rows):.2f}" in decision(rows, "float32")


@pytest.mark.parametrize(
    ("fast", "words"),
    [((0.8, 0.9), "fast plans"), ((0.8, 1.02), "torch plans"), ((), "torch plans; no engine"), (None, "left out")],
)
def test_without_our_c_the_engine_must_be_faster_than_torch(fast: tuple[float, ...] | None, words: str) -> None:
    rows = [row("torch", case, 1.0) for case in ("large", "few")] if fast is not None else []
    rows += [row("fast", case, time) for case, time in zip(("large", "few"), fast or (), strict=False)]
    assert words in decision(rows, "float32")


@pytest.mark.slow
def test_a_processor_without_avx512_is_imitated_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    if main(["benchmark", "engines", "--turns", "1", "--avx2", "--out", str(out)]):
        assert "--avx2" in capsys.readouterr().err
        return
    recording = json.loads(out.read_text())
    here = torch.backends.cpu.get_cpu_capability()  # of this process, as it was
    assert recording["settings"]["imitated"] is (here == "AVX512")  # where there is none, nothing is masked
    assert {row["instructions_used"] for row in recording["rows"]} == {"AVX2"}
    assert "C" not in {row["way"] for row in recording["rows"]}
    assert here in ("AVX512", "AVX2")
