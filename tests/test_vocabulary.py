"""One word for one thing, the one that the field uses: words that must not stand in sources or documents."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = {
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
    r"(?:a|the) robot's own clock": "real-time budget",
    r"machine's mood": "varies",
    r"robot's clock": "real-time budget",
    r"retention": "forgetting factor",
}
"""Whole words, as regular expressions in any case, and what stands in their place."""
NAMES = {"Meeting": "EvaluationResult", "Handling": "BeliefAblation", "Team": "AgentGroup", "Begun": "ResumePoint"}
"""Old identifiers, matched exactly, and the new ones."""
OLD_NAMES_ARE_READ = {"runners/common/renamed.py", "tests/runners/test_renamed.py"}
"""Files that quote old names, since old run folders and flags are still accepted."""
QUOTED = {"told", "retention"}


def misused() -> list[str]:
    """Every replaced word in the tracked sources and documents: file, line, word and what to write."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    rules = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), better) for words, better in WORDS.items()]
    rules += [(re.compile(rf"\b{name}\b"), better) for name, better in NAMES.items()]
    found = []
    for name in listed.stdout.split():
        if ROOT / name == Path(__file__) or not (ROOT / name).is_file():
            continue
        quoted = QUOTED if name in OLD_NAMES_ARE_READ else set()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            for rule, better in rules:
                words = {match.group() for match in rule.finditer(line)} - quoted
                found += [f"{name}:{number}: {word} ({better})" for word in sorted(words)]
    return found


def test_no_replaced_word_is_left() -> None:
    found = misused()
    assert not found, "\n".join(found)


def test_words_and_names_are_found_and_their_neighbours_are_not() -> None:
    texts = {"It foretells": "predict", "What HAPPENED": "observed", "ms an update": "per", "he Team": "AgentGroup"}
    rules = {**{rf"(?i:{words})": better for words, better in WORDS.items()}, **NAMES}
    for text, better in texts.items():
        assert better in {rules[rule] for rule in rules if re.search(rf"\b(?:{rule})\b", text)}
    fine = "a team listens on a port, goes only once, and is intolerable at a restrained 10 ms at most; pictorial"
    assert not [rule for rule in rules if re.search(rf"\b(?:{rule})\b", fine)]
