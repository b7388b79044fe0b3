"""Values with their intervals, one below the other, as a plain SVG chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from components.report.charts import WIDTH, Axis, number

_NAMES, _RIGHT, _TOP, _ROW, _BOTTOM = 148, 52, 8, 30, 44


@dataclass(frozen=True)
class Row:
    """One value of the chart.

    Attributes:
        name: of the value, about 20 characters.
        value: the value.
        interval: low and high end; None draws a point alone.
        style: CSS class, "one" or "two".
    """

    name: str
    value: float
    interval: tuple[float, float] | None = None
    style: str = "two"


def interval_chart(rows: Sequence[Row], x: Axis) -> str:
    """A point and a whisker for each row, from top to bottom; the first row's value is also a vertical rule."""
    height = _TOP + _ROW * len(rows) + _BOTTOM
    foot = height - _BOTTOM
    body = []
    for mark in x.marks():
        at = _x(x, mark)
        body.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{foot}"/>')
        body.append(f'<text class="tick" x="{at:.1f}" y="{foot + 17}">{number(mark)}</text>')
    if rows:
        at = _x(x, rows[0].value)
        body.append(f'<line class="line rule" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{foot}"/>')
    for index, row in enumerate(rows):
        body.append(_row(row, _TOP + _ROW * (index + 0.5), x))
    body.append(f'<text class="axis" x="{(_NAMES + WIDTH - _RIGHT) / 2:.1f}" y="{height - 8}">{escape(x.title)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(body)}</svg>'


def _row(row: Row, y: float, x: Axis) -> str:
    at, label, whisker = _x(x, row.value), f"{row.value:.4f}", ""
    if row.interval is not None:
        low, high = (_x(x, end) for end in row.interval)
        label += f" ({row.interval[0]:.4f} to {row.interval[1]:.4f})"
        ends = f"M{low:.1f} {y - 7:.1f}v14M{high:.1f} {y - 7:.1f}v14"
        whisker = f'<path class="whisker" d="M{low:.1f} {y:.1f}H{high:.1f}{ends}"/>'
    return (
        f'<text class="tick left" x="{_NAMES - 10}" y="{y + 4:.1f}">{escape(row.name)}</text>{whisker}'
        f'<circle class="dot {row.style}" cx="{at:.1f}" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(f'{row.name}: {label}')}</title></circle>"
        f'<text class="value" x="{WIDTH - _RIGHT / 2 + 6:.1f}" y="{y + 4:.1f}">{row.value:.4f}</text>'
    )


def _x(axis: Axis, value: float) -> float:
    return _NAMES + axis.at(value) * (WIDTH - _NAMES - _RIGHT)
