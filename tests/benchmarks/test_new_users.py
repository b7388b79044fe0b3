"""New users of the benchmark of lists without a history."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import new_users
from benchmarks.new_users import COLUMNS, TOP, WITH, WITHOUT, shop, table


def test_new_customers_of_the_shop_have_no_events_that_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_users, "CUSTOMERS", 300)
    monkeypatch.setattr(new_users, "ITEMS", 200)
    new = shop(3)
    users = new.users["user"].to_numpy()
    assert len(users) > 5 and not np.isin(users, new.events["user"].to_numpy()).any()
    assert new.chosen.any(1).all() and new.chosen[np.arange(len(users)), new.first].all()
    assert len(new.stock) >= TOP and all(each.shape == new.chosen.shape for each in new.scores)
    of_interest = new.scores[1].argmax(1)
    known = dict(zip(new.events["item"].to_pylist(), new.events["user"].to_pylist(), strict=True))
    assert set(of_interest.tolist()) <= set(known)


def test_the_table_compares_with_the_model_that_knows_nothing() -> None:
    seeds = [{way: np.full((30, len(COLUMNS)), hit) for way, hit in ((WITHOUT, 0.0), (WITH, 1.0))} for _ in range(2)]
    lines = table(seeds).splitlines()
    assert lines[0] == "60 users" and "+1.000" in lines[-1] and "+1.000" not in lines[-2]
