"""report.html: what it is made of, and how it looks."""

from components.report.charts import Axis, Line, bar_chart, line_chart, spanning
from components.report.page import Card, Facts, Figure, Section, Story, render

__all__ = [
    "Axis",
    "Card",
    "Facts",
    "Figure",
    "Line",
    "Section",
    "Story",
    "bar_chart",
    "line_chart",
    "render",
    "spanning",
]
