"""One word for one thing, the one that the field uses: words that must not stand in sources or documents."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPLACED = {
    r"fore(?:tell|told)\w*": "predict",
    r"(?:tells?|telling|told)": "report, print, be given",
    r"told_\w+|tell_\w+": "report_..., given_...",
    r"yardsticks?": "reference",
    r"(?:keep|keeps|keeping|kept) back": "hold out",
    r"processor[- ]time": "CPU time",
    r"sittings?": "benchmark session",
    r"hardens?": "over-concentrates",
    r"chang\w+ (?:its|their) minds?": "forget; follow a change",
    r"pictures?": "figure",
    r"(?:go|goes|going|gone|went) on": "resume, continue",
    r"go_on": "resume",
    r"too sure": "overconfident",
    r"too wide": "over-dispersed",
    r"intervals? holds?": "cover",
    r"pull on the mean": "shift of the mean",
    r"nats from the prior": "KL to the prior (nats)",
    r"right less wrong": "gain over permuted latents",
    r"(?:nats|ms|MiB|KiB) an? (?:step|transition|row|update|plan|call|epoch)": "per",
    r"common noise": "common random numbers",
    r"look\w* away": "ignore",
    r"(?:wakes?|awake)": "becomes active",
    r"is heard|listens? to|listened to": "is used",
    r"of them unstable": "share with Pareto k above the threshold",
    r"what happen(?:s|ed)": "what is observed",
    r"happened": "observed",
    r"(?:a|the) robot's (?:own )?clock": "real-time budget",
    r"machine's mood": "varies",
    r"retention": "forgetting factor",
    r"Meeting|Handling|Team|Begun": "EvaluationResult, BeliefAblation, AgentGroup, ResumePoint",
}
"""Whole words, as regular expressions, and what stands in their place."""
QUOTED = {("pyro_dynamics/inference/beliefs/power.py", "retention"), ("tests/inference/test_beliefs.py", "retention")}
"""Old names that are still read, in the files that read them."""


def misused() -> list[str]:
    """Every replaced word in the tracked sources and documents, with its file and line."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    pattern = re.compile(rf"\b(?:{'|'.join(REPLACED)})\b")
    found = []
    for name in listed.stdout.split():
        if ROOT / name == Path(__file__) or not (ROOT / name).is_file():
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            words = {match.group() for match in pattern.finditer(line)}
            found += [f"{name}:{number}: {word}" for word in sorted(words) if (name, word) not in QUOTED]
    return found


def test_no_replaced_word_is_left() -> None:
    found = misused()
    assert not found, "\n".join(found)
