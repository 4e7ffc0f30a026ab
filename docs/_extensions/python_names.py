"""Names in the reference: what autodoc shows, and how a name in a docstring or signature is resolved.

A docstring writes ``:class:`UserError```, a signature has the module in which a class stands, and the reference lists a
class once, in the package that hands it out. Where the name as written is not found, the one object of that last name
is taken. A name without a page (a part of the inside, torch's, Python's) is printed without a link if it can be
imported; any other fails the build.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.nodes import make_refnode


def resolve(app: Sphinx, env: BuildEnvironment, node: nodes.Element, content: nodes.Element) -> nodes.Element | None:
    """A link to the only object of this name, the name alone where that is right, or None for a warning."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    if "." not in target:
        target = imported_as(target, node.get("py:module")) or target
    objects: dict[str, Any] = env.domains.python_domain.objects
    for ending in endings(target, node.get("py:module"), node.get("py:class")):
        found = {(entry.docname, entry.node_id): name for name, entry in objects.items() if name.endswith(ending)}
        if len(found) == 1:
            [((page, anchor), name)] = found.items()
            return make_refnode(app.builder, node["refdoc"], page, anchor, [content], name)
    return content if "." in target and imported(target) is not None else None


def endings(target: str, module: str | None, within: str | None) -> list[str]:
    """What the full name may end with, best first: as inherited by the class around it, as written, its last part."""
    if "." in target and not target.startswith("pyro_dynamics."):
        return [] if target[0].islower() else [f".{target}"]
    around = imported(f"{module}.{within}") if within and "." not in target else None
    bases = around.__mro__[1:-1] if isinstance(around, type) else ()
    return [*(f".{base.__name__}.{target}" for base in bases), f".{target}", f".{target.rpartition('.')[2]}"]


def imported_as(name: str, module: str | None) -> str | None:
    """The full name of what a module imports by this name, if only for type checkers."""
    if module is None:
        return None
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    found = (f"{node.module}.{name}" for node in imports if name in {alias.name for alias in node.names})
    return next(found, None)


def imported(name: str) -> Any:
    """The module of a full name, or what it names in one; None if there is no such thing."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found
    return None


def skip(app: Sphinx, what: str, name: str, value: object, skipped: bool, options: object) -> bool | None:
    """Leave out the constants of a module, which are its own; registries and types stay."""
    return None if what != "module" or callable(value) or isinstance(value, Mapping | UnionType) else True


def readable(
    app: Sphinx, what: str, name: str, value: object, options: object, arguments: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """A signature without the defaults that Python cannot write, such as a dataclass's ``<factory>``."""
    return re.sub(r"(= ?)<[^>]*>", r"\1...", arguments) if arguments else arguments, result


def without_object(app: Sphinx, domain: str, kind: str, content: nodes.Element) -> None:
    """Every class extends ``object``: no line says so."""
    if kind == "class" and content.children and content[0].astext() == "Bases: object":
        del content[0]


def whole_docstring(docstring: Any) -> list[str]:
    """In place of napoleon's reading of a property's docstring, which takes words before a colon for a type."""
    return list(docstring._consume_to_end())


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"  # as in the docstrings
    GoogleDocstring._parse_attribute_docstring = whole_docstring  # type: ignore[assignment]
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", readable)
    app.connect("object-description-transform", without_object)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
