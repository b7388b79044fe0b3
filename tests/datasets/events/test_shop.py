"""The synthetic shop: what customers do there, and what a model can learn from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest

from components.datasets.events import EventGeneration
from components.datasets.events.shop import (
    CART,
    DAY,
    OPENING,
    PURCHASE,
    VIEW,
    Shelf,
    ShopEvents,
    make_shelf,
    simulate,
)
from components.datasets.events.synthetic import EVENTS, write_events

USERS, ITEMS, DAYS = 600, 400, 20


@pytest.fixture(scope="module")
def shop() -> tuple[Shelf, ShopEvents]:
    rng = np.random.default_rng(3)
    shelf = make_shelf(ITEMS, 12, DAYS, rng)
    return shelf, simulate(shelf, USERS, DAYS, rng)


def test_events_are_of_items_for_sale_in_order_of_time(shop: tuple[Shelf, ShopEvents]) -> None:
    shelf, events = shop
    day = (events.time // 1000 - OPENING) // DAY
    assert (np.diff(events.time) >= 0).all()
    assert (shelf.first_day[events.item] <= day).all() and (shelf.last_day[events.item] > day - 1).all()


def test_what_is_bought_was_in_the_cart_after_a_view_and_is_never_seen_again(shop: tuple[Shelf, ShopEvents]) -> None:
    _, events = shop
    key = events.user * ITEMS + events.item
    bought, times = key[events.kind == PURCHASE], events.time[events.kind == PURCHASE]
    assert len(bought) and len(np.unique(bought)) == len(bought)
    for kind in (VIEW, CART):
        newest_first = np.flatnonzero(events.kind == kind)[::-1]
        earliest = dict(zip(key[newest_first].tolist(), events.time[newest_first].tolist(), strict=True))
        assert all(earliest[each] < time for each, time in zip(bought.tolist(), times.tolist(), strict=True))
    later = dict(zip(bought.tolist(), times.tolist(), strict=True))
    assert all(time <= later.get(each, time) for each, time in zip(key.tolist(), events.time.tolist(), strict=True))


def test_customers_choose_by_taste(shop: tuple[Shelf, ShopEvents]) -> None:
    shelf, events = shop
    of_taste = np.stack([shelf.taste[events.item[events.user == user]].mean(0) for user in np.unique(events.user)])
    shuffled = np.random.default_rng(1).permutation(events.item)
    by_chance = np.stack([shelf.taste[shuffled[events.user == user]].mean(0) for user in np.unique(events.user)])
    assert np.linalg.norm(of_taste, axis=1).mean() > 1.2 * np.linalg.norm(by_chance, axis=1).mean()


def test_the_table_is_the_same_for_the_same_parameters(tmp_path: Path) -> None:
    class Parameters(EventGeneration):
        seed = 4

    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_events(Parameters(60, 80, 5, synthetic_shop_days=4), tmp_path / name)
        written.append((tmp_path / name / EVENTS).read_bytes())
    assert written[0] == written[1]
    table = pc.read_csv(tmp_path / "one" / EVENTS)
    assert table.column_names == ["user", "item", "timestamp", "category", "event", "price", "device", "title"]
    assert set(table["device"].to_pylist()) == {"computer", "phone"}
    assert set(table["event"].to_pylist()) <= {"view", "cart", "purchase"} and table.num_rows > 100
