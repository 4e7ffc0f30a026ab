"""The directives ``command`` and ``part-flags``: tables of flags out of the parsers of the commands themselves.

A command builds its parser with ``tyro.cli``, out of a dataclass and of defaults that depend on the arguments. The
directive runs the command up to that call and takes what it was called with, so that a page cannot differ from
``COMMAND --help``.
"""

import argparse
import importlib
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import tyro
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pyro_dynamics.runners.common.configuration import CHOICES
from pyro_dynamics.runners.main import COMMANDS


class _Called(Exception):
    """What stops a command at its parser."""


def parser_of(command: str, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser that a command reads its arguments with.

    Args:
        command: its name.
        arguments: those that its defaults depend on.
    """
    calls: list[tuple[Any, dict[str, Any]]] = []

    def called(flags: Any, **keywords: Any) -> None:
        calls.append((flags, keywords))
        raise _Called

    runner = importlib.import_module(f"pyro_dynamics.runners.{command}")
    with mock.patch.object(tyro, "cli", called):
        try:
            runner.main([*arguments])
        except _Called:
            pass
        else:
            raise RuntimeError(f"the command {command} reads no flags with tyro.cli")
    flags, keywords = calls[0]
    keywords.pop("args", None)
    with warnings.catch_warnings():  # no other function of tyro's lists the flags; its 1.x series has this one
        warnings.simplefilter("ignore")
        parser: Any = tyro.extras.get_parser(flags, **keywords)
        return parser


DEFAULT = re.compile(r"\s*\((default|required|repeatable)(?:: (.*))?\)\s*$", re.DOTALL)


OF_THE_RUN = (
    "`--belief`, `--update`, `--temperature` and the settings of belief and update are those of the run where not "
    "given; shown are the paper's."
)


class FlagsDirective(SphinxDirective):
    """What both directives share: tables of flags."""

    def table(self, actions: Sequence[argparse.Action], program: str) -> nodes.table:
        """A row for each flag: its name with its kind of value, its default, and what it means."""
        body = nodes.tbody()
        for action in actions:
            words, default = split_help(action)
            kind, choices = kind_of(action)
            if choices:
                words += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
            names = action.option_strings
            if not names:  # positional: its name says more than its type
                names, kind = [positional_name(action)], ""
            entry = nodes.entry(classes=["flag"])
            for number, name in enumerate(names):
                line = nodes.paragraph("", "", nodes.literal(name, name))
                if kind and not number:
                    line += [nodes.Text(" "), nodes.emphasis(kind, kind, classes=["kind"])]
                entry += line
            row = nodes.row("", entry, nodes.entry("", *default_nodes(default)))
            row += nodes.entry("", *self.parse_text_to_nodes(words))
            if program and action.option_strings:
                anchor = nodes.make_id(f"{program}-{names[0].lstrip('-')}")
                row["ids"].append(anchor)
                domain = self.env.domains.standard_domain
                for name in names:
                    domain.add_program_option(f"pyro-dynamics {program}", name, self.env.docname, anchor)
            body += row
        head = nodes.row("", *(nodes.entry("", nodes.paragraph("", word)) for word in ("flag", "default", "meaning")))
        if actions and not any(action.option_strings for action in actions):
            head[0][0][0] = nodes.Text("argument")
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (32, 16, 52)), cols=3)
        group += [nodes.thead("", head), body]
        return nodes.table("", group, classes=["flags"])


class CommandDirective(FlagsDirective):
    """``{command} NAME``: summary, usage, description and flags of a command, with the directive's content between."""

    required_arguments = 1
    has_content = True
    option_spec = {"arguments": directives.unchanged}  # noqa: RUF012  # Sphinx's own way

    def run(self) -> list[nodes.Node]:
        """The nodes of the page."""
        command = self.arguments[0]
        parser = parser_of(command, self.options.get("arguments", "").split())
        self.env.note_dependency(str(importlib.import_module(f"pyro_dynamics.runners.{command}").__file__))
        words = f"*{sentence(COMMANDS[command])}*\n\n```text\n{usage(command, parser)}\n```\n\n"
        found = self.parse_text_to_nodes(words + description(parser.description or ""))
        found += self.parse_content_to_nodes()
        for group, actions in groups(parser):
            title = group.title or ""
            if title == "positional arguments":
                title = "Arguments"
            section = nodes.section(ids=[nodes.make_id(f"{command}-{title}")], names=[])
            part = title.removesuffix(" options")
            section += nodes.title(title, "", nodes.Text(part.capitalize()))
            if part != title:
                section[0] += [nodes.Text(": "), nodes.literal(f"--{part}.*", f"--{part}.*")]
            note = plain(group.description or "")
            if any(action.dest == "online.belief" for action in actions):
                note += OF_THE_RUN
            if part in CHOICES and part != title:
                note += f"\n\nThese are the settings of the default; [each {part} has its own](/reference/parts.md)."
            if note:
                section += self.parse_text_to_nodes(note)
            section += self.table(actions, command)
            found.append(section)
        return found


class CommandListDirective(SphinxDirective):
    """``{command-list}``: every command with its summary, and a link to its page."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        rows = [f"| [`{name}`]({name}.md) | {escaped(sentence(summary))} |" for name, summary in COMMANDS.items()]
        return self.parse_text_to_nodes("\n".join(["| command | what it does |", "|---|---|", *rows]))


class PartFlagsDirective(FlagsDirective):
    """``{part-flags} KIND``: the settings of every registered guide, belief, update or planner, as flags."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A section for each part."""
        kind = self.arguments[0]
        found: list[nodes.Node] = []
        for name, part in CHOICES[kind].items():
            section = nodes.section(ids=[nodes.make_id(f"{kind}-{name}")], names=[])
            section += nodes.title(name, "", nodes.literal(f"--{kind} {name}", f"--{kind} {name}"))
            section += self.parse_text_to_nodes(f"{{py:class}}`~{public(part)}`: {plain(first_line(part))}")
            parser = parser_of("train", [f"--{kind}", name])
            own = [actions for group, actions in groups(parser) if group.title == f"{kind} options"]
            section += self.table(own[0], "") if own else self.parse_text_to_nodes("It has no settings.")
            found.append(section)
        return found


def groups(parser: argparse.ArgumentParser) -> Iterator[tuple[Any, list[argparse.Action]]]:
    """The groups of flags in the order of ``--help``, without those that are empty."""
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if actions:
            yield group, actions


def split_help(action: argparse.Action) -> tuple[str, str]:
    """What a flag means, and its default."""
    words = plain(action.help or "")
    found = DEFAULT.search(words)
    if found is None:
        return sentence(words), ""
    default = "required" if found.group(1) == "required" else (found.group(2) or "")
    return sentence(words[: found.start()]), {"None": "", "True": "on", "False": "off"}.get(default, default)


def kind_of(action: argparse.Action) -> tuple[str, list[str]]:
    """The kind of value that a flag takes, and the words that it may be, if they are few and fixed."""
    kind = action.metavar if isinstance(action.metavar, str) else ""
    kind = kind.replace("{None}|", "").replace("{None,", "{")
    many = " ..." if "..." in kind else ""
    choices = re.match(r"\[?\{([^{}|]*)\}", kind)
    if choices is not None:
        return f"NAME{many}", choices.group(1).split(",")
    return re.sub(r"^\[(\w+).*", rf"\1{many}", kind), []


def default_nodes(default: str) -> list[nodes.Node]:
    """A default in the table: code, or a word of ours."""
    if not default:
        return []
    if default in ("required", "on", "off"):
        return [nodes.paragraph("", default)]
    return [nodes.paragraph("", "", nodes.literal(default, default))]


def positional_name(action: argparse.Action) -> str:
    """What stands for a positional argument in the usage."""
    return action.dest.split(".")[-1].replace("-", "_").upper()


def usage(command: str, parser: argparse.ArgumentParser) -> str:
    """One line: the positional arguments in front of the flags."""
    positional = [action for _, actions in groups(parser) for action in actions if not action.option_strings]
    words = []
    for action in positional:
        many = action.nargs in ("*", "+") or "..." in str(action.metavar)
        word = f"{positional_name(action)} ..." if many else positional_name(action)
        words.append(word if action.required and action.nargs not in ("*", "?") else f"[{word}]")
    return " ".join(["pyro-dynamics", command, *words, "[FLAGS]"])


def description(text: str) -> str:
    """The paragraphs of a docstring; one that is a command line becomes code."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(
        f"```sh\n{one.strip()}\n```" if one.startswith("pyro-dynamics ") else plain(one) for one in paragraphs
    )


ROLE = re.compile(r":\w+(?::\w+)?:`~?([^`<>]+)`")
CODE = re.compile(r"`[^`]*`")


def plain(text: str) -> str:
    """Words of a docstring as Markdown: roles become code, and what Markdown would read as marks is escaped."""
    text = ROLE.sub(lambda found: f"`{found.group(1).rsplit('.', 1)[-1]}`", text).replace("``", "`")
    parts, last = [], 0
    for code in CODE.finditer(text):
        parts += [escaped(text[last : code.start()]), code.group()]
        last = code.end()
    return "".join([*parts, escaped(text[last:])]).strip()


def escaped(text: str) -> str:
    """Text outside of code."""
    text = re.sub(r"([*_<>\[\]$~|])", r"\\\1", text)
    text = re.sub(r"docs/([\w/-]+)\.md", r"[docs/\1.md](/\1.md)", text)
    return re.sub(r"(?<![\w-])(--(?:[\w-]+(?:\.[\w-]+)*)?)", r"`\1`", text)


def sentence(text: str) -> str:
    """With a full stop, and a capital letter unless it begins with a word of the command line and a colon."""
    text = text.strip()
    if not re.match(r"[\w-]+:", text):
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def first_line(part: Any) -> str:
    """The first paragraph of a docstring."""
    return " ".join((part.__doc__ or "").split("\n\n")[0].split())


def public(part: type) -> str:
    """The name under which the reference documents a class: that of the package that hands it out."""
    module = part.__module__
    while "." in module:
        package = module.rsplit(".", 1)[0]
        if getattr(importlib.import_module(package), part.__name__, None) is not part:
            break
        module = package
    return f"{module}.{part.__name__}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.add_directive("command", CommandDirective)
    app.add_directive("command-list", CommandListDirective)
    app.add_directive("part-flags", PartFlagsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
