"""docs/errors.md has a row for every error that a user can cause, and no row for one that is gone."""

import re

from user_errors import BLANK, ROOT, messages

PAGE = ROOT / "docs" / "errors.md"
PASSED_ON = {"runners/sweep.py"}
"""What another process has told is told again as it is."""


def rows() -> list[str]:
    lines = re.findall(r"^\| `(.+?)` \| .+ \| .+ \|$", PAGE.read_text(), flags=re.MULTILINE)
    return [line.replace("\\|", "|") for line in lines]


def test_every_error_has_a_row_and_every_row_an_error() -> None:
    assert {message.where.split(":")[0] for message in messages() if message.text == BLANK} <= PASSED_ON
    told = {message.text: message.where for message in messages() if message.text != BLANK}
    assert len(told) > 200
    there = set(rows())
    missing = {where: text for text, where in told.items() if text not in there}
    assert not missing, f"docs/errors.md has no row for {missing}"
    gone = there - set(told)
    assert not gone, f"docs/errors.md has rows for what nobody raises: {gone}"


def test_no_row_is_there_twice_and_each_says_what_to_do() -> None:
    found = rows()
    assert len(found) == len(set(found))
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(table) == len(found)  # none that cannot be read
