"""A report in sections of text, tables and figures: as one self-contained HTML file, and as Markdown."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.plots.style import Png

CSS = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2em auto; padding: 0 1em; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; padding-bottom: .2em; }
.table { overflow-x: auto; } table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .3em .8em; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th, td { white-space: nowrap; }
th:first-child, td:first-child, .words { text-align: left; white-space: normal; }
th { white-space: normal; }
figure { margin: 1.5em 0; } img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: 15px; }
"""


@dataclass(frozen=True)
class Figure:
    """A figure with what it shows.

    Attributes:
        name: of its file, without the ending.
        png: drawn.
        caption: what it shows.
    """

    name: str
    png: Png
    caption: str


@dataclass(frozen=True)
class Table:
    """Rows of cells under a row of headings."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A heading, then text, tables and figures.

    Attributes:
        heading: what it is about.
        words: paragraphs of plain text.
        tables: after the words.
        figures: after the tables.
    """

    heading: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Report:
    """A title and sections."""

    title: str
    sections: Sequence[Section] = field(default_factory=list)

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [figure for section in self.sections for figure in section.figures]


def to_html(report: Report) -> str:
    """One file with embedded figures."""
    body = [f"<h1>{escape(report.title)}</h1>"]
    for section in report.sections:
        body.append(f"<h2>{escape(section.heading)}</h2>")
        body += [f"<p>{escape(words)}</p>" for words in section.words]
        body += [_html_table(table) for table in section.tables]
        for figure in section.figures:
            data, caption = base64.b64encode(figure.png).decode(), escape(figure.caption)
            image = f'<img src="data:image/png;base64,{data}" alt="{caption}">'
            body.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.title)}</title><style>{CSS}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def to_markdown(report: Report, figures: str) -> str:
    """The same with links to the figures' files in the folder ``figures``."""
    lines = [f"# {report.title}", ""]
    for section in report.sections:
        lines += [f"## {section.heading}", ""]
        for words in section.words:
            lines += [words, ""]
        for table in section.tables:
            lines += [markdown_table(table.head, table.rows), ""]
        for figure in section.figures:
            lines += [f"![{figure.caption}]({figures}/{figure.name}.png)", ""]
    return "\n".join(lines)


def _html_table(table: Table) -> str:
    # A column of words reads from the left, one of numbers from the right.
    kinds = ["".join(column)[:1].isalpha() for column in zip(*table.rows, strict=True)]
    head = "".join(_html_cell("th", cell, words) for cell, words in zip(table.head, kinds, strict=True))
    rows = [
        "".join(_html_cell("td", cell, words) for cell, words in zip(row, kinds, strict=True)) for row in table.rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _html_cell(tag: str, cell: str, words: bool) -> str:
    kind = ' class="words"' if words else ""
    return f"<{tag}{kind}>{escape(cell)}</{tag}>"
