"""The synthetic reviews, or the events of a synthetic shop, as a plain table."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from components.datasets.events.shop import DEVICES, KINDS, devices_of, make_shelf, simulate, titles_of
from components.datasets.histories.synthetic import USERS_AT_A_TIME, catalogue_of, reviews_of
from components.progress import progress

EVENTS = "events.csv.gz"


def write_events(parameters: Any, folder: Path) -> None:
    """Generates events.csv.gz in ``folder``, with the columns user, item, timestamp and category.

    The times of a shop's events are in milliseconds; its table also has the columns event, price, device and title. The
    same parameters give the same bytes; without a shop, the events of the reviews that ``write_synthetic`` writes.
    """
    blocks = _of_a_shop(parameters) if parameters.synthetic_shop_days else _of_reviews(parameters)
    # Reproducible: the header of the file has neither name nor time.
    with (folder / EVENTS).open("wb") as raw, gzip.GzipFile("", "wb", 4, raw, mtime=0) as file:
        file.writelines(block.encode() for block in blocks)


def _of_reviews(parameters: Any) -> Iterator[str]:
    users, catalogue = parameters.synthetic_users, catalogue_of(parameters)
    yield "user,item,timestamp,category\n"
    with progress("generating events", users, "users") as bar:
        for first in range(0, users, USERS_AT_A_TIME):
            count = min(USERS_AT_A_TIME, users - first)
            reviews, _ = reviews_of(parameters, catalogue, first, count)
            rows = zip(reviews.user.tolist(), reviews.item.tolist(), reviews.time.tolist(), strict=True)
            yield "".join(
                f"A{user:013d},B{catalogue.number[item]:09d},{time},"
                + (f"Interest {catalogue.category[item] + 1}" if catalogue.has_metadata[item] else "")
                + "\n"
                for user, item, time in rows
            )
            bar.advance(count)


def _of_a_shop(parameters: Any) -> Iterator[str]:
    days, rng = parameters.synthetic_shop_days, np.random.default_rng([parameters.seed, 2])
    shelf = make_shelf(parameters.synthetic_items, parameters.synthetic_categories, days, rng)
    events = simulate(shelf, parameters.synthetic_users, days, rng)
    devices = devices_of(events, np.random.default_rng([parameters.seed, 3]))
    titles = titles_of(shelf, np.random.default_rng([parameters.seed, 4]))
    yield "user,item,timestamp,category,event,price,device,title\n"
    columns = (events.user, events.item, events.time, events.kind, devices)
    for user, item, time, kind, device in zip(*(column.tolist() for column in columns), strict=True):
        category = shelf.category[item] + 1
        told = f"{KINDS[kind]},{shelf.price[item]:.2f},{DEVICES[device]},{titles[item]}"
        yield f"A{user:013d},B{item + 1:09d},{time},Category {category},{told}\n"
