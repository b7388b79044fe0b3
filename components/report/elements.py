"""The parts of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Card:
    """A number at the top.

    Attributes:
        value: the number; None shows a dash.
        main: whether it is the primary metric.
    """

    name: str
    value: float | None
    hint: str
    main: bool = False


@dataclass(frozen=True)
class Figure:
    """A chart with its title and a sentence.

    Attributes:
        chart: HTML of ``components.report.charts``.
        wide: whether it takes the whole width, such as a table with sentences.
    """

    title: str
    chart: str
    note: str
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """Figures under a heading; omitted without figures."""

    title: str
    text: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Story:
    """A task's part of the report.

    Attributes:
        lead: its meaning, in a sentence or two.
        cards: numbers, the primary metric first.
    """

    headline: str
    lead: str
    cards: Sequence[Card]
    sections: Sequence[Section]
    data: Mapping[str, str] = field(default_factory=dict)
    first: Sequence[Section] = ()
