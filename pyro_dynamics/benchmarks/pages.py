"""Tables in pages between markers: each names the command that makes it again from recorded rows.

A marked table begins with the comment ``<!-- begin: pyro-dynamics benchmark NAME --report FILE -->`` and ends with
``<!-- end -->``. A page is renewed by running the commands of its markers, so that page and rows cannot differ.
"""

import re
import shlex
from collections.abc import Callable, Sequence

from pyro_dynamics.errors import UserError

BLOCK = re.compile(r"(<!-- begin: (?P<command>[^>]*?) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
COMMAND = ("pyro-dynamics", "benchmark")


def commands(text: str) -> list[list[str]]:
    """The arguments of ``pyro-dynamics benchmark`` in the markers of a page."""
    return [shlex.split(block["command"])[2:] for block in BLOCK.finditer(text)]


def renew(text: str, report: Callable[[Sequence[str]], str]) -> str:
    """A page with its marked tables as their commands print them now.

    Args:
        text: of the page, in Markdown.
        report: what ``pyro-dynamics benchmark`` prints with such arguments.

    Raises:
        UserError: if a marker names another command, or one has no end.
    """
    if text.count("<!-- begin: ") != len(BLOCK.findall(text)):
        raise UserError("a marked table has no end: close each `<!-- begin: ... -->` by `<!-- end -->`")

    def made(block: re.Match[str]) -> str:
        words = shlex.split(block["command"])
        if tuple(words[:2]) != COMMAND or "--report" not in words:
            raise UserError(
                f"the marker {block['command']!r} names no `pyro-dynamics benchmark NAME --report FILE`: only recorded "
                "rows make a table again"
            )
        return f"{block[1]}\n{report(words[2:]).strip()}\n\n{block[4]}"

    return BLOCK.sub(made, text)
