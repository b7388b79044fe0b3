"""Charts as plain SVG: no script, no font, no network, readable in light and dark.

Colours and line styles are CSS classes of the page's style sheet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LONG = 30  # characters of a cell that may break
_INTERVAL = re.compile(r" (\([-+\d.]+ to [-+\d.]+\))$")
WIDTH, HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 14, 46
_TICKS = 5
# Of a chart of intervals, which fills a wide figure: its width, widths beside the rows, and heights.
_WIDE, _NAMES, _ROWS_RIGHT, _ROWS_TOP, _ROW, _ROWS_BOTTOM = 980, 178, 62, 8, 30, 44
# Narrower bars have small labels, and values of two digits, which three would overlap.
_NARROW = 42


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        name: shown in the legend; empty shows none.
        x: positions, ascending.
        style: CSS class, "one", "two" or "rule" (thin and dashed, for a reference).
        dots: mark each point; hovering over one shows its values.
        band: lower and upper ends around the values, shaded; None draws none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "one"
    area: bool = False
    dots: bool = False
    band: tuple[Sequence[float], Sequence[float]] | None = None


@dataclass(frozen=True)
class Axis:
    """A linear axis: title, range and ticks (automatic if omitted)."""

    title: str
    low: float
    high: float
    ticks: tuple[float, ...] = ()

    def marks(self) -> tuple[float, ...]:
        return self.ticks or tuple(_round_numbers(self.low, self.high))

    def at(self, value: float) -> float:
        return (value - self.low) / ((self.high - self.low) or 1.0)


def spanning(title: str, values: Sequence[float], *, ticks: tuple[float, ...] = ()) -> Axis:
    """An axis that spans the values with a margin."""
    low, high = min(values), max(values)
    room = (high - low) * 0.12 or abs(high) * 0.05 or 0.5
    return Axis(title, low - room, high + room, ticks)


def line_chart(lines: Sequence[Line], x: Axis, y: Axis) -> str:
    body = [_grid(x, y)]
    for line in lines:
        points = [(_x(x, a), _y(y, b)) for a, b in zip(line.x, line.y, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        if line.area and points:
            base = _y(y, max(y.low, 0.0))
            body.append(
                f'<polygon class="area {line.style}" points="{points[0][0]:.1f},{base:.1f} {path} '
                f'{points[-1][0]:.1f},{base:.1f}"/>'
            )
        if line.band:
            ends = [*zip(line.x, line.band[0], strict=True), *reversed([*zip(line.x, line.band[1], strict=True)])]
            shape = " ".join(f"{_x(x, a):.1f},{_y(y, b):.1f}" for a, b in ends)
            body.append(f'<polygon class="area {line.style}" points="{shape}"/>')
        body.append(f'<polyline class="line {line.style}" points="{path}"/>')
        if line.dots:
            for (a, b), u, v in zip(points, line.x, line.y, strict=True):
                label = f"{line.name}: {x.title} {u:.4g}, {y.title} {v:.4f}"
                body.append(
                    f'<circle class="dot {line.style}" cx="{a:.1f}" cy="{b:.1f}" r="4">'
                    f"<title>{escape(label)}</title></circle>"
                )
    return _svg(body) + _legend(lines)


def bar_chart(
    names: Sequence[str],
    values: Sequence[float | None],
    notes: Sequence[str],
    x: str,
    y: Axis,
    bands: Sequence[tuple[float, float] | None] = (),
) -> str:
    """Bars from the axis' low end, each with its value on top and a note below its name.

    Args:
        notes: of about eight characters, so that they do not overlap below ten bars.
        values: None omits the bar but not its name.
        bands: each value's interval, drawn as a line across the bar's end; empty draws none.
    """
    body = [_grid(None, y)]
    slot = (WIDTH - LEFT - RIGHT) / max(len(names), 1)
    small = " small" if slot < _NARROW else ""
    for index, (name, value, note) in enumerate(zip(names, values, notes, strict=True)):
        middle = LEFT + slot * (index + 0.5)
        if value is not None:
            band = bands[index] if bands else None
            shown = f'<text class="value{small}"', f"{value:.{2 if small else 3}f}"
            body.append(_bar(middle, min(slot * 0.6, 64), name, value, shown, note, y, band))
        body.append(f'<text class="tick{small}" x="{middle:.1f}" y="{HEIGHT - BOTTOM + 16}">{escape(name)}</text>')
        body.append(f'<text class="note" x="{middle:.1f}" y="{HEIGHT - BOTTOM + 29}">{escape(note)}</text>')
    body.append(f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 2}">{escape(x)}</text>')
    return _svg(body)


def _bar(
    middle: float,
    width: float,
    name: str,
    value: float,
    shown: tuple[str, str],
    note: str,
    y: Axis,
    band: tuple[float, float] | None,
) -> str:
    """A bar.

    Args:
        shown: the beginning of the value's element, and its text.
    """
    top, foot, label, across, above = _y(y, value), _y(y, y.low), f"{value:.4f}", "", value
    if band:
        low, high = (_y(y, end) for end in band)
        label += f" ({band[0]:.4f} to {band[1]:.4f})"
        above = band[1]
        across = (
            f'<path class="whisker" d="M{middle:.1f} {low:.1f}V{high:.1f}M{middle - 6:.1f} {low:.1f}h12'
            f'M{middle - 6:.1f} {high:.1f}h12"/>'
        )
    return (
        f'<rect class="bar" x="{middle - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{max(foot - top, 0):.1f}" rx="3"><title>{escape(f"{name}: {label}, {note}")}</title></rect>{across}'
        f'{shown[0]} x="{middle:.1f}" y="{_y(y, above) - 6:.1f}">{shown[1]}</text>'
    )


@dataclass(frozen=True)
class Row:
    """One value of the chart.

    Attributes:
        name: about 20 characters.
        interval: low and high end; None draws a point alone.
        style: CSS class, "one" or "two".
    """

    name: str
    value: float
    interval: tuple[float, float] | None = None
    style: str = "two"


def interval_chart(rows: Sequence[Row], x: Axis) -> str:
    """A point and a whisker for each row, from top to bottom; the first row's value is also a vertical rule."""
    height = _ROWS_TOP + _ROW * len(rows) + _ROWS_BOTTOM
    foot = height - _ROWS_BOTTOM
    body = []
    for mark in x.marks():
        at = _row_x(x, mark)
        body.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_ROWS_TOP}" y2="{foot}"/>')
        body.append(f'<text class="tick" x="{at:.1f}" y="{foot + 17}">{_number(mark)}</text>')
    if rows:
        at = _row_x(x, rows[0].value)
        body.append(f'<line class="line rule" x1="{at:.1f}" x2="{at:.1f}" y1="{_ROWS_TOP}" y2="{foot}"/>')
    for index, row in enumerate(rows):
        body.append(_row(row, _ROWS_TOP + _ROW * (index + 0.5), x))
    body.append(
        f'<text class="axis" x="{(_NAMES + _WIDE - _ROWS_RIGHT) / 2:.1f}" y="{height - 8}">{escape(x.title)}</text>'
    )
    return f'<svg viewBox="0 0 {_WIDE} {height}" role="img">{"".join(body)}</svg>'


def _row(row: Row, y: float, x: Axis) -> str:
    at, label, whisker = _row_x(x, row.value), f"{row.value:.4f}", ""
    if row.interval is not None:
        low, high = (_row_x(x, end) for end in row.interval)
        label += f" ({row.interval[0]:.4f} to {row.interval[1]:.4f})"
        ends = f"M{low:.1f} {y - 7:.1f}v14M{high:.1f} {y - 7:.1f}v14"
        whisker = f'<path class="whisker" d="M{low:.1f} {y:.1f}H{high:.1f}{ends}"/>'
    return (
        f'<text class="tick left" x="{_NAMES - 10}" y="{y + 4:.1f}">{escape(row.name)}</text>{whisker}'
        f'<circle class="dot {row.style}" cx="{at:.1f}" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(f'{row.name}: {label}')}</title></circle>"
        f'<text class="value" x="{_WIDE - _ROWS_RIGHT / 2 + 6:.1f}" y="{y + 4:.1f}">{row.value:.4f}</text>'
    )


def _row_x(axis: Axis, value: float) -> float:
    return _NAMES + axis.at(value) * (_WIDE - _NAMES - _ROWS_RIGHT)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; the first column is the row header.

    Long texts, such as sentences, may break, and values before their interval.
    """
    cells = [("th", header), *(("td", row) for row in rows)]
    lines = ["".join(_cell(tag, text) for text in row) for tag, row in cells]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(tag: str, text: str) -> str:
    shown = _INTERVAL.sub(r" <span>\1</span>", escape(text))
    kind = ' class="long"' if len(text) > _LONG or shown != escape(text) else ""
    return f"<{tag}{kind}>{shown}</{tag}>"


def _grid(x: Axis | None, y: Axis) -> str:
    parts = []
    for mark in y.marks():
        height = _y(y, mark)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text class="tick left" x="{LEFT - 7}" y="{height + 4:.1f}">{_number(mark)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text class="axis" transform="translate(13 {middle}) rotate(-90)">{escape(y.title)}</text>')
    if x is not None:
        for mark in x.marks():
            parts.append(f'<text class="tick" x="{_x(x, mark):.1f}" y="{HEIGHT - BOTTOM + 17}">{_number(mark)}</text>')
        parts.append(f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">{escape(x.title)}</text>')
    return "".join(parts)


def _svg(body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(body)}</svg>'


def _legend(lines: Sequence[Line]) -> str:
    keys = [f'<span class="key {line.style}">{escape(line.name)}</span>' for line in lines if line.name]
    return f'<div class="legend">{"".join(keys)}</div>' if len(keys) > 1 else ""


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.at(value) * (HEIGHT - TOP - BOTTOM)


def _number(value: float) -> str:
    """A tick without trailing zeros."""
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) < 1e4 else f"{value:,.0f}"


def _round_numbers(low: float, high: float) -> list[float]:
    """About five ticks between two values, at multiples of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / _TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]
