"""Profiles of tables: what is counted, that parts make no difference, and that samples tell what the rows do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from components.checks.profile import CATEGORY, NUMBER, TIME, Table
from components.checks.profiler import stability_index
from components.checks.tables import Profiled, TableProfiler, new_values

COLUMNS = (
    Profiled("user", CATEGORY, counted=True),
    Profiled("kind", CATEGORY),
    Profiled("price", NUMBER),
    Profiled("at", TIME, unit=1e-3, epoch=100.0),
)
KEY = ("user", "kind", "price", "at")


def rows(number: int, seed: int = 1, users: tuple[int, int] = (0, 500), mean: float = 0.0) -> pa.Table:
    random = np.random.default_rng(seed)
    kinds = [None if kind == 3 else "abc"[kind] for kind in random.integers(0, 4, number).tolist()]
    prices = random.normal(mean, 1, number)
    prices[::10] = np.nan
    return pa.table({
        "user": [f"u{user}" for user in random.integers(*users, number).tolist()],
        "kind": pa.array(kinds, pa.string()),
        "price": prices,
        "at": np.arange(number) * 1000,
    })  # fmt: skip


def profiler(tables: Sequence[pa.Table], seed: int = 5) -> TableProfiler:
    made = TableProfiler(COLUMNS, KEY, seed)
    for table in tables:
        made.add(table)
    return made


def profile(*tables: pa.Table) -> Table:
    return profiler(tables).profile()


def test_small_data_are_described_exactly() -> None:
    found = profile(rows(1000))
    assert (found.rows, found.duplicates) == (1000, 0)
    assert found.columns["price"].missing == 0.1
    assert found.columns["kind"].categories[0] in "abc" and len(found.columns["kind"].categories) == 3
    assert sum(found.columns["kind"].shares) == pytest.approx(1)
    assert (found.columns["at"].lowest, found.columns["at"].highest) == (100, 1099)
    values = found.columns["user"].values
    assert values is not None and values.distinct == len(set(rows(1000)["user"].to_pylist()))


def test_deciles_share_the_numbers_evenly() -> None:
    price = profile(rows(10_000)).columns["price"]
    assert len(price.edges) == 9
    assert max(price.shares) - min(price.shares) < 0.001


@pytest.mark.parametrize("number", [1000, 200_000])
def test_how_rows_arrive_makes_no_difference(number: int) -> None:
    table = rows(number, users=(0, 30_000))
    cuts = [0, 7, number // 3, number // 2, number]
    parts = [table.slice(a, b - a) for a, b in pairwise(cuts)]
    assert profile(table) == profile(*parts)


def test_a_sample_of_values_tells_how_many_there_are() -> None:
    values = profile(rows(200_000, users=(0, 30_000))).columns["user"].values
    assert values is not None and values.level > 0 and len(values.hashes) <= 2048
    assert values.distinct == pytest.approx(30_000, rel=0.1)


def test_a_repeated_part_is_duplicates() -> None:
    table = rows(100_000)
    assert profile(table, table.slice(0, 25_000)).duplicates == pytest.approx(0.2, abs=0.03)


def test_new_users_are_told_from_a_sample() -> None:
    theirs, ours = (
        profile(rows(150_000, seed, users=users)).columns["user"].values
        for seed, users in ((1, (0, 20_000)), (2, (5000, 25_000)))
    )
    assert ours is not None and theirs is not None
    assert new_values(ours, theirs) == pytest.approx(0.25, abs=0.05)
    assert new_values(theirs, theirs) == 0


def test_a_shift_of_a_number_shows_in_its_bins() -> None:
    reference = profile(rows(20_000)).columns["price"]

    def moved(mean: float) -> float:
        shares = profiler([rows(20_000, 2, mean=mean)]).shares("price", reference)
        assert shares is not None
        return stability_index(shares, reference.shares)

    # The PSI of two normal distributions of variance 1 is their squared distance; bins lose a little of it.
    assert moved(0.0) < 0.01
    assert moved(0.5) == pytest.approx(0.25, abs=0.03)
    assert moved(1.0) == pytest.approx(1.0, abs=0.15)


def test_categories_that_the_reference_lacks_are_others() -> None:
    reference = profile(rows(1000)).columns["kind"]
    unknown = rows(1000).set_column(1, "kind", pa.array(["z"] * 1000))
    shares = profiler([unknown]).shares("kind", reference)
    assert shares is not None and shares.tolist() == [0, 0, 0, 1]


def test_a_table_without_rows_has_a_profile() -> None:
    assert profile(rows(10).slice(0, 0)).rows == 0
    assert profile().columns["user"].missing == 0
