"""The parts of report.html; ``components.report.page`` renders them."""

from components.report.charts import Axis, Line, bar_chart, line_chart, spanning, table
from components.report.elements import Card, Figure, Section, Story

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
    "table",
]
