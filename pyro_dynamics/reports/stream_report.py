"""The report of ``pyro-dynamics diagnose`` on an adaptation: when the belief is wrong, and how."""

import numpy as np

from pyro_dynamics.diagnostics.stream.stream_diagnosis import StreamDiagnosis
from pyro_dynamics.environments import Family
from pyro_dynamics.io.stream_folder import Adaptation
from pyro_dynamics.plots.stream_figure import draw_stream
from pyro_dynamics.reports.diagnosis_report import number
from pyro_dynamics.reports.report import Figure, Report, Section, Table


def stream_report(
    adaptation: Adaptation, diagnosis: StreamDiagnosis, family: Family, trained_means: np.ndarray
) -> Report:
    """The report of an adaptation, with the trained latent means ``[K, d]`` of its run."""
    words = [f"{diagnosis.verdict.title}: {diagnosis.verdict.why}"]
    data = "the last 20 steps" if diagnosis.windowed else "all steps since the true parameter last changed"
    if diagnosis.steps:
        words.append(
            f"K-hat compares draws of the belief with the posterior of an oracle reset, given {data}. "
            f"Below {diagnosis.threshold:.2f} the weights, which shift and width come from, can be relied upon."
        )
    troubles = [[f"{one.first} to {one.last}", one.kind, one.words] for one in diagnosis.trouble]
    figure = draw_stream(diagnosis, adaptation.contexts, adaptation.latent, family.axes, trained_means, family.train)
    sections = [
        Section(
            "Verdict",
            words,
            [Table(["steps", "problem", "description"], troubles)] if troubles else [],
            [Figure("stream", figure, "The belief, k-hat and coverage by step; steps with problems are shaded.")],
        )
    ]
    if diagnosis.steps:
        measures = (diagnosis.k_hat, diagnosis.shift, diagnosis.covered, diagnosis.spread)
        rows = [
            [
                *(str(step), str(since), number(k_hat), " ".join(f"{part:+.2f}" for part in shift)),
                *(f"{covered:.0%}", " ".join(f"{part:.2f}" for part in spread)),
            ]
            for step, since, k_hat, shift, covered, spread in zip(
                diagnosis.steps, diagnosis.since, *measures, strict=True
            )
        ]
        head = ["step", "data since", "k-hat", "shift (sd)", "90 % interval covers", "width / posterior's"]
        sections.append(Section("Checkpoints", (), [Table(head, rows)]))
    return Report(f"{family.name}: a belief along {diagnosis.length} steps", sections)
