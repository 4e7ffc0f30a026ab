"""pyro-dynamics benchmark engines: the networks of a plan by torch, by our C and by engines, and what that decides."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.control.precision import matrix_product_rate
from pyro_dynamics.errors import require_positive
from pyro_dynamics.io.provenance import is_masked, provenance
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.models.fused import FusedEnsemble, can_fuse
from pyro_dynamics.models.planning_engine import OnnxEnsemble, Pass
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags

LIMIT = 1.15
"""Our C goes where an engine takes at most so many times its time, in every case."""
TORCH, OURS = "torch", "C"
PRECISIONS = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


@dataclass(frozen=True)
class Case:
    """What a step of a plan needs: targets drawn by the noise of their own, or location and scale."""

    name: str
    hidden: tuple[int, ...]
    rows: int
    draws: bool
    calls: int


CASES = [
    Case("paper, location and scale", (200,) * 4, 10_000, False, 2),
    Case("paper, targets drawn", (200,) * 4, 10_000, True, 2),
    Case("realtime, location and scale", (128,) * 3, 56, False, 100),
]
"""Of 5 networks with halfcheetah-tilt's sizes: 500 candidates x 20 particles, and 56 candidates x 5."""
MEMBERS, INPUTS, LATENTS, TARGETS = 5, 24, 1, 18


@dataclass(frozen=True)
class EnginesFlags(RecordFlags):
    """Time the networks' pass of a plan by torch, our C, ONNX Runtime and OpenVINO, in turn in one session.

    Each is there if it runs here: the C needs AVX-512 or AMX and a C compiler, the engines `pip install onnx
    onnxruntime openvino`. Prints a table, and what would be chosen here by the project's rule.
    """

    turns: int = 15
    """How often each way comes in turn; a row is the median of its best CPU times, its ratios those within a turn."""

    def __post_init__(self) -> None:
        require_positive(self, "turns")


Flags = EnginesFlags


class OpenVinoEnsemble(OnnxEnsemble):
    """The same model, run by OpenVINO."""

    block = 2000  # its calls cost more

    def session(self, model: bytes) -> Any:
        """What runs it in :attr:`precision`."""
        import openvino

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            file.write_bytes(model)
            settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": self.precision}
            compiled = openvino.Core().compile_model(file, "CPU", settings)
        self._request = compiled.create_infer_request()
        return self

    precision = "f32"

    def run(self, _: None, inputs: dict[str, Any]) -> Sequence[Any]:
        """As a session of ONNX Runtime does."""
        found = self._request.infer(inputs, share_inputs=True)
        return [found[0], found[1]]


class OpenVinoBfloat16(OpenVinoEnsemble):
    """In bfloat16."""

    precision = "bf16"


def measure_rows(flags: EnginesFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    rows = []
    for case in progress_bar(CASES, total=len(CASES), unit="case"):
        rows += timed(case, flags.turns)
    rate = matrix_product_rate(torch.float32, seconds=0.2)
    return {"turns": flags.turns, "imitated": is_masked(provenance()), "float32_products": rate}, rows


def timed(case: Case, turns: int) -> list[dict[str, Any]]:
    """A row for each way."""
    draws = torch.Generator().manual_seed(0)
    net = networks(case)
    inputs = torch.randn(MEMBERS, case.rows, INPUTS, generator=draws)
    latent = torch.randn(MEMBERS, case.rows, LATENTS, generator=draws)
    with torch.inference_mode():
        exact = net(inputs, latent)
        found = ways(net)
        passes = {way: step(form, case, draws) for way, form in found.items()}
        errors = {way: float((form(inputs, latent)[0] - exact[0]).abs().max()) for way, form in found.items()}
        best: dict[tuple[str, str], list[float]] = {way: [] for way in passes}
        for _ in range(turns):
            for way, run in passes.items():
                best[way].append(min(cpu_time(run, inputs, latent) for _ in range(case.calls)))
    machine, used = provenance(), torch.backends.cpu.get_cpu_capability()
    here = {name: machine[name] for name in ("processor", "instructions", "cores", "load", "threads")}
    products = 2 * MEMBERS * case.rows * sum(weight[0].numel() for weight in net.weights)
    return [
        {
            "case": case.name,
            "way": way,
            "precision": precision,
            "version": version_of(way),
            "cpu_s": median(times),
            "times_torch": median(a / b for a, b in zip(times, best[TORCH, "float32"], strict=True)),
            "times_c": over_c(best, way, precision),
            "gflops": products / median(times) / 1e9,
            "error": errors[way, precision],
            "instructions_used": used,
            **here,
        }
        for (way, precision), times in best.items()
    ]


def over_c(best: dict[tuple[str, str], list[float]], way: str, precision: str) -> float | None:
    """The median ratio to our C in the same precision, or None where it does not run."""
    ours = best.get((OURS, precision))
    return median(a / b for a, b in zip(best[way, precision], ours, strict=True)) if ours else None


def networks(case: Case) -> Ensemble:
    """With random weights: speed does not depend on what is learned."""
    net = Ensemble(INPUTS, LATENTS, TARGETS, EnsembleConfig(MEMBERS, case.hidden, (0.0,) * (len(case.hidden) + 1)))
    return net.requires_grad_(False)


def ways(net: Ensemble) -> dict[tuple[str, str], Pass]:
    """Those that run here, by name and precision."""
    bounds = net.min_log_variance, net.max_log_variance
    arguments: Any = (list(net.weights), list(net.biases), net.input_mean, net.input_scale, *bounds)
    found: dict[tuple[str, str], Pass] = {(TORCH, "float32"): net}
    # Engines take bfloat16 for float32 where the processor has no instructions for it; torch is slower there.
    pays = matrix_product_rate(torch.bfloat16) > matrix_product_rate(torch.float32)
    if pays:
        found[TORCH, "bfloat16"] = net.in_bfloat16
    for dtype, precision in PRECISIONS.items():
        if can_fuse(dtype):
            found[OURS, precision] = FusedEnsemble(dtype, *arguments)
    # ONNX Runtime has no products in bfloat16 for processors.
    engines = {("ONNX Runtime", "float32"): OnnxEnsemble, ("OpenVINO", "float32"): OpenVinoEnsemble}
    if pays:
        engines["OpenVINO", "bfloat16"] = OpenVinoBfloat16
    for (way, precision), form in engines.items():
        if version_of(way) and version_of("ONNX"):
            found[way, precision] = form(torch.float32, *arguments)
    return found


def step(form: Pass, case: Case, generator: torch.Generator) -> Callable[[Tensor, Tensor], Any]:
    """A pass with what the case asks for."""
    if not case.draws:
        return form
    if isinstance(form, FusedEnsemble):
        return lambda inputs, latent: form.sample_targets(inputs, latent, generator)

    def drawn(inputs: Tensor, latent: Tensor) -> Tensor:
        location, scale = form(inputs, latent)
        return torch.addcmul(location, scale, torch.empty_like(location).normal_(generator=generator))

    return drawn


def cpu_time(run: Callable[[Tensor, Tensor], Any], inputs: Tensor, latent: Tensor) -> float:
    """Of one call, in seconds."""
    before = time.process_time()
    run(inputs, latent)
    return time.process_time() - before


def version_of(way: str) -> str | None:
    """The version of its package, None if it is not installed; our C is called from torch."""
    try:
        return version("torch" if way == OURS else way.lower().replace(" ", ""))
    except PackageNotFoundError:
        return None


def table(recording: Recording) -> str:
    """The rows as Markdown, and what they decide."""
    head = ["case", "way", "precision", "CPU ms", "times torch", "times C", "GFLOP/s", "error"]
    lines = [
        [
            row["case"],
            f"{row['way']}{'' if row['way'] == OURS else ' ' + row['version']}",
            row["precision"],
            f"{1000 * row['cpu_s']:.3g}",
            f"{row['times_torch']:.2f}",
            "" if row["times_c"] is None else f"{row['times_c']:.2f}",
            f"{row['gflops']:.0f}",
            f"{row['error']:.0e}",
        ]
        for row in recording.rows
    ]
    masked = (
        "CPUID masked as on a processor without AVX-512 and AMX: the libraries' code for AVX2 on the processor below."
    )
    chosen = [f"- {decision(recording.rows, precision)}" for precision in PRECISIONS.values()]
    parts = [markdown_table(head, lines, words=3), *([masked] if recording.settings["imitated"] else [])]
    return "\n\n".join([*parts, "By the rule here:\n\n" + "\n".join(chosen)])


def decision(rows: Sequence[dict[str, Any]], precision: str) -> str:
    """What the rule chooses in a precision: see :data:`LIMIT`; without our C the faster of torch and the best engine.

    Args:
        rows: of all cases and ways.
        precision: of the networks.
    """
    of_precision = [row for row in rows if row["precision"] == precision]
    if not of_precision:
        return f"{precision}: not faster here than float32, and left out"
    ours = any(row["way"] == OURS for row in of_precision)
    engines = {row["way"] for row in of_precision} - {TORCH, OURS}
    reference = {row["case"]: row["times_torch"] for row in of_precision if row["way"] == TORCH}
    ratios = {
        way: [
            row["times_c"] if ours else row["times_torch"] / reference[row["case"]]
            for row in of_precision
            if row["way"] == way
        ]
        for way in engines
    }
    beside = "our C" if ours else "torch"
    if not engines:
        return f"{precision}: {beside} plans; no engine is installed that could in this precision"
    best = min(sorted(engines), key=lambda way: max(ratios[way]))
    found = f"{best}, the better engine, takes {min(ratios[best]):.2f} to {max(ratios[best]):.2f} times its time"
    if ours:
        goes = max(ratios[best]) <= LIMIT
        return f"{precision}: our C {'goes' if goes else 'stays'}: {found} (the limit is {LIMIT})"
    return f"{precision}: {best if max(ratios[best]) < 1 else 'torch'} plans: beside torch, {found}"
