"""The formats of figures: apart from what draws them, so that flags need no matplotlib."""

from typing import Literal

FigureFormat = Literal["png", "pdf", "svg"]
"""Of the files beside the PNG."""
