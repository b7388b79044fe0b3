"""Parts of tables: together they are the table."""

from __future__ import annotations

import numpy as np
import pytest

from components.models.tables.placement import COLUMNS, KINDS, RANK, REPLICATED, ROWS, Placement, divide


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != REPLICATED])
@pytest.mark.parametrize("rows", [1, 3, 10])
def test_every_value_of_a_sharded_table_is_on_one_rank(kind: str, rows: int) -> None:
    held = np.zeros([rows, 8], int)
    for part in divide(Placement(kind, 2), (rows, 8), 4):
        held[part.first :: part.step, part.begin : part.end][: part.rows] += 1
    assert (held == 1).all()


def test_a_part_finds_the_rows_that_it_holds() -> None:
    part = divide(Placement(ROWS), (10, 8), 4)[1]  # the rows 1, 5 and 9
    held, places = part.find(np.array([0, 1, 5, 6, 9, 5]))
    assert held.tolist() == [False, True, True, False, True, True]
    assert places.tolist() == [0, 1, 2, 1]
    assert part.ids(1, 3).tolist() == [5, 9]


def test_a_rank_without_the_table_finds_nothing() -> None:
    held, places = divide(Placement(RANK, 1), (10, 8), 2)[0].find(np.arange(10))
    assert not held.any() and not places.size


def test_columns_that_ranks_cannot_share_evenly_are_refused() -> None:
    with pytest.raises(ValueError, match="6 columns cannot be divided evenly over 4 ranks"):
        divide(Placement(COLUMNS), (10, 6), 4)
