"""Plans the placement of a model's tables, from their sizes and a rank's memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.errors import KfrecError
from components.models.tables.placement import KINDS, RANK, REPLICATED, ROWS, Placement, Requested, divide

AUTO = "auto"
_ON_HOST = "host"
_FLOAT = 4


@dataclass(frozen=True)
class Requirements:
    """The user's requirements for table placement.

    Attributes:
        kind: default for all tables: AUTO, or a kind of placement.
        named: (kind, on_host) of single tables, by the last part of their names.
        memory: a rank's bytes for tables and their optimizer state; None for no limit.
    """

    kind: str = AUTO
    named: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    memory: float | None = None


def read_named(text: str) -> dict[str, tuple[str, bool]]:
    """Parses placements of single tables, such as ``cat_3=rows,cat_9=rank@host``, to (kind, on_host).

    Raises:
        KfrecError: the syntax is invalid.
    """
    named = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        match = re.fullmatch(rf"([^=@]+)=({'|'.join((AUTO, *KINDS))})(@{_ON_HOST})?", part)
        if match is None or match[1] in named:
            raise KfrecError(
                f"parameter placed_tables={text!r}: {part!r} is not a table and one of {', '.join((AUTO, *KINDS))}, "
                f"once for each table; write cat_3=rows,cat_9=rank@{_ON_HOST}"
            )
        named[match[1]] = match[2], match[3] is not None
    return named


def plan_tables(
    title: str, tables: Sequence[Requested], ranks: int, requirements: Requirements, copies: float = 1.0
) -> dict[str, Placement]:
    """Places tables.

    AUTO replicates all tables if they fit. Otherwise it moves as few as possible, largest first: each goes to the rank
    with the most free memory, or is sharded by rows if it does not fit there. RANK for all tables assigns each, largest
    first, to the rank with the most free memory.

    Args:
        copies: bytes of a table with its optimizer state, as a multiple of the table's bytes.

    Returns:
        The placement of each table, by name.

    Raises:
        KfrecError: an unknown table, columns that are not divisible by the ranks, or too little memory.
    """
    unnamed = requirements.kind, False
    kinds = {table.name: requirements.named.get(_short(table), unnamed) for table in tables}
    _require_known(tables, requirements)
    if ranks == 1:
        kinds = {name: (REPLICATED, on_host) for name, (_, on_host) in kinds.items()}
    by_size = sorted(tables, key=lambda table: -table.rows * table.width)
    free = [table for table in by_size if kinds[table.name][0] == AUTO]
    limit = math.inf if requirements.memory is None else requirements.memory
    tries = [_Plan(ranks, copies) for _ in range(len(free) + 2)]
    for divided, plan in enumerate(tries):
        movable = free[:divided]
        for table in (table for table in by_size if table not in movable):
            kind, on_host = kinds[table.name]
            plan.place(table, REPLICATED if kind == AUTO else kind, on_host)
        for table in movable:  # into the memory that the others leave
            fits = divided <= len(free) and plan.least + copies * _bytes(table) <= limit
            plan.place(table, RANK if fits else ROWS, kinds[table.name][1])
        if plan.most <= limit:
            return plan.placements
    raise KfrecError(_does_not_fit(title, by_size, tries[-1], ranks, limit, copies))


def _short(table: Requested) -> str:
    return table.name.rpartition("/")[2]


def _bytes(table: Requested) -> int:
    return _FLOAT * table.rows * table.width


def _require_known(tables: Sequence[Requested], requirements: Requirements) -> None:
    known = list(dict.fromkeys(map(_short, tables)))
    for name in requirements.named:
        if name not in known:
            raise KfrecError(
                f"parameter placed_tables: the model has no table {name}; its tables are {', '.join(known)}"
            )


class _Plan:
    """Placements so far, and the load of each rank in bytes."""

    def __init__(self, ranks: int, copies: float) -> None:
        self.placements: dict[str, Placement] = {}
        self._loads, self._copies = [0.0] * ranks, copies

    @property
    def least(self) -> float:
        return min(self._loads)

    @property
    def most(self) -> float:
        return max(self._loads)

    def place(self, table: Requested, kind: str, on_host: bool) -> None:
        placement = Placement(kind, self._loads.index(self.least) if kind == RANK else 0, on_host)
        try:
            parts = divide(placement, (table.rows, table.width), len(self._loads))
        except ValueError as error:
            raise KfrecError(
                f"table {_short(table)}: its {error}; use the placement {ROWS}, or another width or number of workers"
            ) from None
        self.placements[table.name] = placement
        if not on_host:
            self._loads = [
                load + self._copies * _FLOAT * part.size for load, part in zip(self._loads, parts, strict=True)
            ]


def _does_not_fit(title: str, tables: Sequence[Requested], plan: _Plan, ranks: int, limit: float, copies: float) -> str:
    needed, largest = copies * sum(map(_bytes, tables)), tables[0]
    enough = math.ceil(needed / max(limit, 1))
    return (
        f"the embedding tables of {title} need {needed / 1e9:,.1f} GB to train ({_short(largest)} alone "
        f"{copies * _bytes(largest) / 1e9:,.1f} GB), of which one of {ranks} ranks would hold "
        f"{plan.most / 1e9:,.1f} GB and has room for {limit / 1e9:,.1f} GB; use at least {enough:,} ranks with "
        f"table_placement={AUTO} and without xla, raise table_memory, or lower the width of the embeddings"
    )
