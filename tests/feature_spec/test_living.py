"""A vocabulary through thirty nights: who gets a row, who loses it, and that no row moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import KfrecError
from components.feature_spec.living import WAITING, Living, Rules, Turnover, read_living

RULES = Rules(first=1, admit_after=3, evict_after=2, evict_share=1.0)


def fitted(counts: dict[int, int], capacity: int, day: int = 0) -> Living:
    """The values have the ids 1, 2, ... in this order."""
    values = np.array(sorted(counts), np.uint32)
    living = Living.empty(np.zeros(0, np.uint32)).counted(values, np.array([counts[v] for v in values.tolist()]), day)
    return living.with_ids(np.array(list(counts), np.uint32), np.arange(1, len(counts) + 1), capacity)


def night(living: Living, day: int, seen: dict[int, int], rules: Rules = RULES) -> tuple[Living, Turnover]:
    values = np.array(sorted(seen), np.uint32)
    return living.counted(values, np.array([seen[value] for value in values.tolist()], np.int64), day).grown(rules)


def rows(living: Living) -> dict[int, int]:
    ids, values = living.by_id()
    return dict(zip(values.tolist(), ids.tolist(), strict=True))


def test_a_value_gets_a_free_row_once_it_was_seen_often_enough_within_the_window() -> None:
    living = fitted({10: 5, 20: 5}, capacity=4)
    living, first = night(living, 1, {10: 1, 20: 1, 30: 2})
    assert first == Turnover(0, 0) and 30 not in rows(living)
    living, second = night(living, 2, {10: 1, 20: 1, 30: 1})
    assert second == Turnover(1, 0) and rows(living) == {10: 1, 20: 2, 30: 3}
    # 40 comes too seldom: its count is forgotten in between.
    living, _ = night(living, 3, {10: 1, 20: 1, 30: 1, 40: 2})
    living, _ = night(living, 6, {10: 1, 20: 1, 30: 1})
    living, _ = night(living, 7, {40: 2})
    assert 40 not in rows(living)


def test_a_value_that_was_not_seen_for_longer_leaves_and_is_counted_anew() -> None:
    living = fitted({10: 500, 20: 5}, capacity=2)
    living, kept = night(living, 2, {20: 1})
    assert kept == Turnover(0, 0)
    living, left = night(living, 3, {20: 1})
    assert left == Turnover(0, 1) and rows(living) == {20: 2}
    living, back = night(living, 4, {10: 2, 20: 1})
    assert back == Turnover(0, 0)
    assert rows(night(living, 5, {10: 1, 20: 1})[0]) == {10: 1, 20: 2}


def test_in_a_full_table_the_lightest_value_gives_its_row_to_a_heavier_one() -> None:
    living = fitted({10: 3, 20: 9}, capacity=2)
    living, turnover = night(living, 1, {20: 1, 30: 5, 40: 4})
    # 10 weighs 3 / 2; 20, with 10, outweighs both.
    assert turnover == Turnover(1, 1) and rows(living) == {20: 2, 30: 1}


def test_no_more_than_a_share_of_the_rows_is_lost_in_a_night() -> None:
    living = fitted(dict.fromkeys(range(20), 5), capacity=20)
    seen = dict.fromkeys(range(100, 120), 9)
    living, turnover = night(living, 9, seen, Rules(1, 3, 2, 0.25))
    assert turnover == Turnover(5, 5)
    living, turnover = night(living, 10, seen, Rules(1, 3, 2, 0.25))
    assert turnover == Turnover(5, 5)


def test_no_row_moves_in_thirty_nights_of_churn(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    living = fitted(dict.fromkeys(range(50), 4), capacity=60)
    rules = Rules(1, 3, 4, 0.1)
    came = went = 0
    for day in range(1, 31):
        before = rows(living)
        # A value lives for about ten days.
        drawn, counts = np.unique(random.integers(5 * day, 5 * day + 50, 200), return_counts=True)
        living, turnover = night(living, day, dict(zip(drawn.tolist(), counts.tolist(), strict=True)), rules)
        living.write(tmp_path / "seen.parquet", lambda values: pa.array(values).cast(pa.string()))
        living = read_living(
            tmp_path / "seen.parquet", "", lambda texts: np.asarray(texts.cast(pa.uint32())).astype(np.uint32)
        )
        after = rows(living)
        assert {value: row for value, row in before.items() if value in after} == {
            value: row for value, row in after.items() if value in before
        }
        assert len(set(after.values())) == len(after) and set(after.values()) <= set(range(1, 61))
        assert len(after.keys() - before.keys()) == turnover.admitted
        assert len(before.keys() - after.keys()) == turnover.evicted <= 6
        assert (living.ids == WAITING).sum() < 300
        came, went = came + turnover.admitted, went + turnover.evicted
    assert came > 100 and went > 100


def test_damaged_counters_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "seen.parquet"
    numbers = {name: np.array([1, 1]) for name in ("id", "count", "first", "last", "admitted")}
    table = pa.table({"value": ["1", "2"], **numbers})
    pq.write_table(table, path)
    with pytest.raises(KfrecError, match=r"seen\.parquet: no counters of a vocabulary .*; fit one"):
        read_living(path, "fit one", lambda texts: np.asarray(texts.cast(pa.uint32())))
    pq.write_table(table.replace_schema_metadata({"capacity": "3", "until": "1"}), path)
    with pytest.raises(KfrecError, match=r"seen\.parquet: has a value or an id twice"):
        read_living(path, "fit one", lambda texts: np.asarray(texts.cast(pa.uint32())))
