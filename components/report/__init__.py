"""report.html: what it is made of; :mod:`components.report.page` puts it together."""

from components.report.charts import Axis, Line, bar_chart, line_chart, spanning
from components.report.parts import Card, Figure, Section, Story

__all__ = [
    "Axis",
    "Card",
    "Figure",
    "Line",
    "Section",
    "Story",
    "bar_chart",
    "line_chart",
    "spanning",
]
