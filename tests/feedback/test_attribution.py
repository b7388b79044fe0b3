"""Outcomes find their rows: once each, within the window, after the wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.errors import KfrecError
from components.feedback.outcomes import attribute, read_outcomes

HOUR = 3_600_000_000
DAY = 86_400_000_000


def served(*rows: tuple[str, int, str | None, str | None, int | None, int]) -> pd.DataFrame:
    names = ["request_id", "row", "user", "item", "rank", "time"]
    return pd.DataFrame(rows, columns=names).astype({"rank": "Int32"})


def outcomes(tmp_path: Path, text: str) -> pd.DataFrame:
    path = tmp_path / "outcomes.csv"
    path.write_text(text)
    return read_outcomes(str(path), tmp_path / "scratch")


def test_a_row_is_labelled_when_its_window_and_the_wait_are_over_and_not_before(tmp_path: Path) -> None:
    rows = served(("a", 0, None, None, None, 0), ("b", 0, None, None, None, 0), ("c", 0, None, None, None, 20 * HOUR))
    found = outcomes(tmp_path, "request_id\na\nc\n")
    labels, counts = attribute(rows, found, window=24, wait=6, now=30 * HOUR)
    np.testing.assert_array_equal(labels, [1, 0, np.nan])  # c has its click, and waits as the others did
    assert (counts.matured, counts.waiting, counts.attributed) == (2, 1, 2)
    assert np.isnan(attribute(rows, found, window=24, wait=6, now=30 * HOUR - 1)[0]).all()


def test_late_duplicate_unmatched_early_and_future_outcomes_are_counted(tmp_path: Path) -> None:
    rows = served(("a", 0, None, None, None, DAY), ("b", 0, None, None, None, DAY))
    found = outcomes(
        tmp_path,
        "request_id,time,label\n"
        "a,1970-01-02 01:00,0\na,1970-01-02 02:00,1\na,1970-01-02 03:00,0\n"  # one row, the largest label
        "b,1970-01-03 00:01,1\n"  # a minute late
        "x,1970-01-02 01:00,1\n"
        "b,1970-01-01 23:59,0\n"  # of a clock that is behind
        "b,1970-02-01 00:00,1\n",
    )
    labels, counts = attribute(rows, found, window=24, wait=0, now=3 * DAY)
    np.testing.assert_array_equal(labels, [1, 0])
    assert vars(counts) == {
        "served": 2, "matured": 2, "waiting": 0, "outcomes": 7, "attributed": 4, "duplicates": 2, "late": 1,
        "unmatched": 1, "early": 1, "future": 1,
    }  # fmt: skip


def test_an_outcome_of_a_user_and_an_item_belongs_to_the_newest_row_before_it(tmp_path: Path) -> None:
    rows = served(
        ("a", 0, "u", "i", 1, 0), ("b", 0, "u", "i", 3, 2 * HOUR), ("c", 0, "u", "i", 1, 5 * HOUR),
        ("c", 0, "u", "j", 2, 5 * HOUR),
    )  # fmt: skip
    found = outcomes(tmp_path, "user,item,time\nu,i,10800\nu,k,10800\n")
    labels, counts = attribute(rows, found, window=2, wait=0, now=DAY)
    np.testing.assert_array_equal(labels, [0, 1, 0, 0])
    assert (counts.attributed, counts.unmatched) == (1, 1)


def test_in_a_list_the_item_names_the_row_and_in_a_batch_its_number(tmp_path: Path) -> None:
    rows = served(
        ("list", 0, "u", "i", 1, 0), ("list", 0, "u", "j", 2, 0), ("list", 1, "w", "j", 1, 0),
        ("batch", 0, None, None, None, 0), ("batch", 1, None, None, None, 0),
    )  # fmt: skip
    found = outcomes(tmp_path, "request_id,row,item\nlist,,j\nlist,1,j\nbatch,1,\n")
    np.testing.assert_array_equal(attribute(rows, found, window=1, wait=0, now=DAY)[0], [0, 1, 1, 0, 1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user,item\nu,i\n", "outcomes.csv: has the columns user, item; give request_id, and row or item"),
        ("request_id,label\na,2\n", "outcomes.csv: row 1: label is 2; give 0 or 1"),
        ('request_id\na\n""\n', "outcomes.csv: row 2 has no request_id"),
        ("user,item,time\nu,i,\n", "outcomes.csv: row 1: time is ''; give a time"),
    ],
)
def test_outcomes_that_cannot_be_read_name_the_row(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=said):
        outcomes(tmp_path, text)
