"""Tables as text: in Markdown for files, and in columns for the terminal."""

from collections.abc import Sequence

Cells = Sequence[str]


def markdown_table(head: Cells, rows: Sequence[Cells], words: int | None = None) -> str:
    """A Markdown table.

    Args:
        head: the headings.
        rows: cells, as many in each row as there are headings.
        words: so many first columns hold words, and the others numbers, which stand to the right; all are words by
            default.
    """
    return "\n".join([markdown_head(head, words), *map(markdown_row, rows)])


def markdown_head(head: Cells, words: int | None = None) -> str:
    """The first two lines of such a table, for rows that are printed as they are found."""
    first = len(head) if words is None else words
    return f"{markdown_row(head)}\n|{'---|' * first}{'--:|' * (len(head) - first)}"


def markdown_row(cells: Cells) -> str:
    """A row of such a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def decimal(value: float, places: int = 1) -> str:
    """A number with so many decimal places, or with two digits where all that were shown would be zeros."""
    rounded = round(value, places) + 0.0  # which turns -0 into 0
    return f"{rounded:.{places}f}" if rounded or not value else f"{value:.2g}"


def text_table(head: Cells, rows: Sequence[Cells], words: int = 1) -> str:
    """A table in columns as wide as their cells, the last one as it is.

    Args:
        head: the headings.
        rows: cells, as many in each row as there are headings.
        words: so many first columns, and the last one, stand to the left, and the others to the right.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for cells in (head, *rows):
        padded = [
            f"{cell:<{width}}" if i < words else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append("  ".join([*padded[:-1], cells[-1]]))
    return "\n".join(lines)
