"""The site: ``sphinx-build -W --keep-going -n docs docs/_build``; any warning is an error."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_extensions"), str(DOCS.parent)]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tutorials: more threads are slower where another process is busy

from pyro_dynamics.version import __version__  # noqa: E402  # found by the line above

project = "pyro-dynamics"
author = "the pyro-dynamics authors"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "command_flags",
    "mathml",
    "page_lists",
    "preset_tables",
    "python_names",
]
exclude_patterns = ["_build", "_extensions", "**.ipynb_checkpoints"]
nitpicky = True  # every name must be found: _extensions/python_names.py

# Markdown. Headings get GitHub's anchors, so that links work in both places.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Tutorials run when the site is built, each in a folder that is thrown away; an error in one fails the build.
nb_execution_mode = "cache"
nb_execution_timeout = 600  # of a cell, on a busy machine
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "image/svg+xml", 5), ("html", "text/html", 20)]

# Reference. Shapes and units stand in the docstrings, types in the signatures.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_default_options = {"show-inheritance": True}
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120
add_module_names = False

# Looks.
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "pyro-dynamics"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6f8b", "color-brand-content": "#1f6f8b"},
    "dark_css_variables": {"color-brand-primary": "#6cc3dc", "color-brand-content": "#6cc3dc"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
