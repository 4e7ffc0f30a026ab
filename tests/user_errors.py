"""Every error that a user can cause, read off the sources: the constant parts of what is raised."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLANK = "…"
"""Stands for what varies."""


class Message(NamedTuple):
    """What is told, with a blank for each part that varies, and where it is raised."""

    text: str
    where: str


def messages() -> list[Message]:
    """The message of every UserError, or error derived from it, that the sources make."""
    trees = {file: ast.parse(file.read_text()) for file in sources()}
    nodes = {file: list(ast.walk(tree)) for file, tree in trees.items()}
    classes = [node for found in nodes.values() for node in found if isinstance(node, ast.ClassDef)]
    kinds = {"UserError"}
    while True:  # an error may be derived from one that is defined in another file
        more = {node.name for node in classes if kinds & {base.id for base in node.bases if isinstance(base, ast.Name)}}
        if more <= kinds:
            break
        kinds |= more
    constants = {  # of any module, which others may import
        target.id: node.value
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for file in trees:
        for node in nodes[file]:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                for value in choices(node.args[0], constants):
                    found.append(Message(text_of(value), f"{file.relative_to(ROOT)}:{node.lineno}"))
    return found


def sources() -> list[Path]:
    folders = ("pyro_dynamics", "models", "guides", "runners")
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    return [file for file in files if not any(parent.is_symlink() for parent in file.parents)]


def choices(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[ast.expr]:
    """The expressions that a message may be: either branch of a condition, and what a module's constant stands for."""
    if isinstance(node, ast.IfExp):
        yield from choices(node.body, constants)
        yield from choices(node.orelse, constants)
    elif isinstance(node, ast.Name) and node.id in constants:
        yield constants[node.id]
    else:
        yield node


def text_of(node: ast.expr) -> str:
    """A message in one line, with blanks; neighbouring blanks are one."""
    if isinstance(node, ast.Constant):
        return " ".join(str(node.value).split())
    if isinstance(node, ast.JoinedStr):
        parts = [str(value.value) if isinstance(value, ast.Constant) else BLANK for value in node.values]
        return " ".join("".join(parts).replace(BLANK + BLANK, BLANK).split())
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
        return text_of(node.func.value)
    return BLANK
