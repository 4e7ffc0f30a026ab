"""Every page of the site can be reached, every command has one, and links between files lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

from pyro_dynamics.runners.main import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(file for file in DOCS.rglob("*.md") if "_build" not in file.parts)
TOCTREE = re.compile(r"^(`{3,}|:{3,})\{(?:toctree|pages)\}\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
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
