"""The synthetic reviews as a plain table."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from components.datasets.histories.synthetic import USERS_AT_A_TIME, catalogue_of, reviews_of
from components.progress import progress

EVENTS = "events.csv.gz"


def write_events(parameters: Any, folder: Path) -> None:
    """Generates events.csv.gz in ``folder``, with the columns user, item, timestamp (s) and category.

    The same parameters give the same bytes, and the events of the reviews that ``write_synthetic`` writes.
    """
    users, catalogue = parameters.synthetic_users, catalogue_of(parameters)
    # Reproducible: the header of the file has neither name nor time.
    with (
        (folder / EVENTS).open("wb") as raw,
        gzip.GzipFile("", "wb", 4, raw, mtime=0) as file,
        progress("generating events", users, "users") as bar,
    ):
        file.write(b"user,item,timestamp,category\n")
        for first in range(0, users, USERS_AT_A_TIME):
            count = min(USERS_AT_A_TIME, users - first)
            reviews, _ = reviews_of(parameters, catalogue, first, count)
            rows = zip(reviews.user.tolist(), reviews.item.tolist(), reviews.time.tolist(), strict=True)
            lines = (
                f"A{user:013d},B{catalogue.number[item]:09d},{time},"
                + (f"Interest {catalogue.category[item] + 1}" if catalogue.has_metadata[item] else "")
                + "\n"
                for user, item, time in rows
            )
            file.write("".join(lines).encode())
            bar.advance(count)
