"""Where tables go: from their sizes and the memory of a rank, or by hand."""

from __future__ import annotations

import pytest

from components.errors import KfrecError
from components.models.tables.placement import Placement, Requested
from components.models.tables.plan import Requirements, plan_tables, read_named

# 4000, 2000, 400 and 4 bytes.
TABLES = [Requested("deep/b", 50, 10), Requested("deep/a", 100, 10), Requested("deep/c", 10, 10), Requested("d", 1, 1)]


def kinds(ranks: int, requirements: Requirements, copies: float = 1.0) -> dict[str, tuple[str, int]]:
    plan = plan_tables("Toy", TABLES, ranks, requirements, copies)
    return {name.rpartition("/")[2]: (place.kind, place.rank) for name, place in plan.items()}


REPLICATED = ("replicated", 0)


def test_tables_that_fit_stay_whole() -> None:
    assert set(kinds(2, Requirements(memory=6404)).values()) == {REPLICATED}


def test_the_largest_table_is_divided_when_all_do_not_fit() -> None:
    # Whole, the first rank would have 6404 bytes; without a it has 2404, and 2000 of half of a.
    divided = {"a": ("rows", 0), "b": REPLICATED, "c": REPLICATED, "d": REPLICATED}
    assert kinds(2, Requirements(memory=6403)) == kinds(2, Requirements(memory=4404)) == divided
    assert kinds(2, Requirements(memory=4403)) == divided | {"b": ("rows", 0)}


def test_sharded_tables_that_fit_a_rank_are_dealt_out() -> None:
    equal = [Requested(f"t{number}", 25, 10) for number in range(8)]
    plan = plan_tables("Toy", equal, 4, Requirements(memory=2500))
    assert [(place.kind, place.rank) for place in plan.values()] == [("rank", number % 4) for number in range(8)]


def test_a_table_that_fits_no_rank_is_divided_by_rows() -> None:
    assert kinds(4, Requirements(memory=2000))["a"][0] == "rows"


def test_the_optimizers_state_counts() -> None:
    assert kinds(2, Requirements(memory=3 * 6404), copies=3.0) == dict.fromkeys("badc", REPLICATED)
    assert kinds(2, Requirements(memory=3 * 6404 - 1), copies=3.0)["a"] != REPLICATED


def test_tables_on_one_rank_each_are_balanced() -> None:
    assert kinds(2, Requirements("rank")) == {"a": ("rank", 0), "b": ("rank", 1), "c": ("rank", 1), "d": ("rank", 1)}


def test_one_rank_holds_everything() -> None:
    assert set(kinds(1, Requirements("rows", {"a": ("columns", False)})).values()) == {REPLICATED}


def test_single_tables_are_placed_by_name() -> None:
    named = read_named("a=rows@host, c=columns")
    plan = plan_tables("Toy", TABLES, 2, Requirements("replicated", named))
    assert plan["deep/a"] == Placement("rows", on_host=True)
    assert plan["deep/c"] == Placement("columns")
    assert plan["deep/b"] == Placement()


def test_a_table_in_the_hosts_memory_takes_none_of_the_rank() -> None:
    assert kinds(2, Requirements("auto", read_named("a=auto@host"), 2404)) == dict.fromkeys("badc", REPLICATED)


@pytest.mark.parametrize("text", ["a", "a=", "a=wherever", "a=rows@disk", "a=rows,a=rank", "=rows", "a=rows b=rank"])
def test_a_placement_that_cannot_be_read_is_one_line(text: str) -> None:
    with pytest.raises(KfrecError, match=r"parameter placed_tables=.* write cat_3=rows,cat_9=rank@host"):
        read_named(text)


def test_a_table_that_the_model_lacks_is_one_line() -> None:
    with pytest.raises(KfrecError, match="the model has no table e; its tables are b, a, c, d"):
        plan_tables("Toy", TABLES, 2, Requirements(named=read_named("e=rows")))


def test_tables_that_fit_no_number_of_ranks_are_one_line_with_sizes() -> None:
    large = [Requested("cat_1", 10**9, 128), Requested("cat_2", 10, 128)]
    with pytest.raises(KfrecError) as raised:
        plan_tables("Toy", large, 4, Requirements(memory=80e9))
    assert str(raised.value) == (
        "the embedding tables of Toy need 512.0 GB to train (cat_1 alone 512.0 GB), of which one of 4 ranks would hold "
        "128.0 GB and has room for 80.0 GB; use at least 7 ranks with table_placement=auto and without xla, raise "
        "table_memory, or lower the width of the embeddings"
    )


def test_columns_that_the_ranks_cannot_share_are_one_line() -> None:
    with pytest.raises(KfrecError, match="table a: its 10 columns cannot be divided evenly over 4 ranks; use"):
        plan_tables("Toy", TABLES, 4, Requirements(named=read_named("a=columns")))
