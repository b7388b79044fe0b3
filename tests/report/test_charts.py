"""Charts whose labels can be read, and tables that fit their figures."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import components.report
from components.report import Axis, Row, bar_chart, interval_chart, spanning, table

# Widths of characters in ems, of the page's fonts: digits, and the widest letters of the notes.
_EM = 0.6
_TEXT = re.compile(r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)">([^<]*)</text>')
_SIZES = {"note": 11.0, "small": 10.0}
_CSS = (Path(components.report.__file__).parent / "style.css").read_text()


def overlaps(svg: str) -> list[tuple[str, str]]:
    """Neighbouring texts of one height that overlap."""
    lines: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for kinds, x, y, text in _TEXT.findall(svg):
        size = min((_SIZES.get(kind, 12.0) for kind in kinds.split()), default=12.0)
        lines[y].append((float(x), _EM * size * len(text), text))
    return [
        (left[2], right[2])
        for line in lines.values()
        for left, right in zip(sorted(line), sorted(line)[1:], strict=False)
        if left[0] + left[1] / 2 > right[0] - right[1] / 2
    ]


@pytest.mark.parametrize("bars", [2, 6, 13])
def test_labels_of_bars_of_one_height_do_not_overlap(bars: int) -> None:
    names = ["1,000"] * bars
    svg = bar_chart(names, [0.942] * bars, ["12,345"[: 40 // bars]] * bars, "length", Axis("HR", 0, 1))
    assert overlaps(svg) == []


def test_text_that_is_small_in_a_chart_is_small_on_the_page() -> None:
    for kind, size in _SIZES.items():
        assert f"svg text.{kind} {{ font-size: {size:g}px;" in _CSS


def test_a_chart_of_intervals_fills_the_width_of_its_figure() -> None:
    """A wide figure is a thousand pixels wide, of which a text is drawn as large as in other charts."""
    rows = [Row("the model", 0.7, (0.6, 0.8), "one"), Row("popularity", 0.5, (0.4, 0.6))]
    svg = interval_chart(rows, spanning("AUC", [0.4, 0.8]))
    (width,) = re.findall(r'viewBox="0 0 (\d+) ', svg)
    assert int(width) >= 900 and "max-width: 560px" not in _CSS
    assert overlaps(svg) == []


def test_a_cell_with_an_interval_breaks_before_it_and_nowhere_else() -> None:
    shown = table(("", "NDCG@10"), [("the model (2)", "0.1234 (-0.1000 to +0.1500)")])
    assert '<td class="long">0.1234 <span>(-0.1000 to +0.1500)</span></td>' in shown
    assert "<td>the model (2)</td>" in shown
    assert "figure td { padding-right: 18px; white-space: nowrap; }" in _CSS
