"""The parts of report.html; ``components.report.page`` renders them."""

from components.report.charts import Axis, Line, Row, bar_chart, interval_chart, line_chart, spanning, table
from components.report.elements import Card, Figure, Section, Story
