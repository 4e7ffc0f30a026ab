"""Every page of the site can be reached, every command has one, and links between files lead somewhere."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pyro_dynamics.environments import find_family
from pyro_dynamics.runners import sweep, train
from pyro_dynamics.runners.main import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(file for file in DOCS.rglob("*.md") if "_build" not in file.parts)
TOCTREE = re.compile(r"^(`{3,}|:{3,})\{(?:toctree|pages)\}\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
FIGURE = re.compile(r"^`{3,}\{(?:figure|image)\} (\S+)$", re.MULTILINE)


def listed_by(page: Path) -> set[Path]:
    """The pages in a page's tables of contents."""
    found: set[Path] = set(page.parent.glob("*.md")) if "```{pages}" in page.read_text() else set()
    for _, block in TOCTREE.findall(page.read_text()):
        entries = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
        for entry in entries:
            found |= set(page.parent.glob(f"{entry}.md"))
    return found - {page}


def anchors(page: Path) -> set[str]:
    """What may stand after # in a link to a page: its headings as GitHub writes them, and its targets."""
    text = page.read_text()
    bare = re.sub(r"^(`{3,}|~{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"[^\w\- ]", "", line.lower()) for line in re.findall(r"^#+ +(.+?) *$", bare, re.MULTILINE)]
    return {heading.replace(" ", "-") for heading in headings} | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def broken(page: Path, text: str) -> list[str]:
    """The links in a page's text that lead to no file, or to no heading of it."""
    found = []
    for link in [*LINK.findall(CODE.sub("", text)), *FIGURE.findall(text)]:
        if re.match(r"[a-z]+:", link):
            continue  # of the network
        name, _, anchor = link.partition("#")
        target = (page.parent / name if not name.startswith("/") else DOCS / name[1:]) if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


def documented(command: str) -> list[str]:
    """The calls of a command in the blocks of code of all pages and of the README, each once."""
    blocks = [found[0] for page in (*PAGES, ROOT / "README.md") for found in BLOCK.finditer(page.read_text())]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    calls = (re.search(rf"(?:^|[/ ])pyro-dynamics {command}\b([^#|]*)", line) for line in lines)
    return list(dict.fromkeys(" ".join(call[1].split()) for call in calls if call))


@pytest.mark.parametrize("call", documented("sweep"))
def test_sweeps_in_the_documents_are_of_families_and_settings_that_there_are(call: str) -> None:
    own, for_train = sweep.split(shlex.split(call))
    jobs = sweep.make_jobs(sweep.parse(own), for_train)
    assert {job.name.split("/")[0] for job in jobs} == {find_family(job.config.family).name for job in jobs}
    sweep.refuse_what_cannot_be_built(jobs)


@pytest.mark.parametrize("call", [call for call in documented("train") if ":" not in call and "--resume" not in call])
def test_trainings_in_the_documents_are_of_families_and_settings_that_there_are(call: str) -> None:
    assert find_family(train.parse(shlex.split(call)).run.family).train


def test_commands_are_found_in_the_documents() -> None:
    assert len(documented("sweep")) > 3
    assert len(documented("train")) > 12


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        new = set().union(*map(listed_by, new)) - reached
    assert set(PAGES) - reached == set()
    assert len(PAGES) > 40


def test_every_command_has_a_page() -> None:
    folder = DOCS / "reference/commands"
    assert {page.stem for page in folder.glob("*.md")} - {"index"} == set(COMMANDS)
    for command in COMMANDS:
        assert f"```{{command}} {command}\n" in (folder / f"{command}.md").read_text()


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_broken_links_are_found() -> None:
    text = "[a](index.md) [b](nowhere.md) `[c](code.md)` [d](https://pyro.ai) [e](architecture.md#floors) [f](#none)"
    assert broken(DOCS / "index.md", text) == ["nowhere.md", "#none"]


def test_what_the_build_writes_is_not_tracked() -> None:
    listed = subprocess.run(["git", "ls-files", "docs/_build"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert listed.stdout == ""
