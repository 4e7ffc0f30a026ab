"""The directive ``pages``: a folder's table of contents in a given order, to which new pages are added by themselves.

Sphinx's own ``toctree`` with a glob has either an order or no warning where a pattern finds nothing more.
"""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.directives.other import TocTree


class PagesDirective(TocTree):
    """``{pages}``: options as of ``toctree``; its lines are names of pages, which come first where they exist."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The table of contents of the folder of this page."""
        folder = self.env.docname.removesuffix("index")
        pages = {name.removeprefix(folder) for name in self.env.found_docs if name.startswith(folder)}
        first = [name for name in self.content if name in pages]
        rest = sorted(name for name in pages - {*first, "index"} if "/" not in name)
        self.content = StringList([*first, *rest], self.env.docname)
        self.env.glob_toctrees.add(self.env.docname)  # read again when there is a new page
        return super().run()


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.add_directive("pages", PagesDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
