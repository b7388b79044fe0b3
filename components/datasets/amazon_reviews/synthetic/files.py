"""Writes the synthetic data set in the format of the 2014 Amazon files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from components.datasets.amazon_reviews.synthetic.catalogue import Catalogue, make_catalogue
from components.datasets.amazon_reviews.synthetic.histories import DAYS, Interests, Reviews, draw_reviews
from components.progress import progress

REVIEWS = "reviews_Synthetic.json.gz"
META = "meta_Synthetic.json.gz"
USERS_AT_A_TIME = 4096
# The mean of a user.
REVIEWS_PER_USER = 25
_LEVEL = 4


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates reviews_Synthetic.json.gz and meta_Synthetic.json.gz in ``folder``.

    The same parameters give the same bytes. A few thousand users are held in memory at a time.
    """
    users = parameters.synthetic_users
    catalogue = catalogue_of(parameters)
    _write_meta(catalogue, folder / META)
    names = np.array([f"B{number:09d}" for number in catalogue.number], dtype=object)
    with _gzip(folder / REVIEWS) as file, progress("generating reviews", users, "users") as bar:
        for first in range(0, users, USERS_AT_A_TIME):
            count = min(USERS_AT_A_TIME, users - first)
            reviews, _ = reviews_of(parameters, catalogue, first, count)
            file.write(_lines(reviews, names))
            bar.advance(count)


def catalogue_of(parameters: Any) -> Catalogue:
    """The shop of the download step's parameters."""
    return make_catalogue(
        parameters.synthetic_items,
        parameters.synthetic_categories,
        np.random.default_rng([parameters.seed, 0]),
        DAYS,
        parameters.synthetic_item_lifetime,
    )


def reviews_of(parameters: Any, catalogue: Catalogue, first_user: int, users: int) -> tuple[Reviews, Interests | None]:
    """Reviews of users, and the interests behind them; the same for the same parameters and users."""
    return draw_reviews(
        first_user,
        users,
        REVIEWS_PER_USER,
        parameters.synthetic_shuffled_labels,
        catalogue,
        np.random.default_rng([parameters.seed, 1, first_user]),
    )


def _lines(reviews: Reviews, names: np.ndarray) -> bytes:
    columns = zip(
        reviews.user.tolist(),
        names[reviews.item].tolist(),
        reviews.rating.tolist(),
        reviews.time.tolist(),
        strict=True,
    )
    return "".join(
        f'{{"reviewerID": "A{user:013d}", "asin": "{asin}", "overall": {rating}.0, "unixReviewTime": {time}}}\n'
        for user, asin, rating, time in columns
    ).encode()


def _write_meta(catalogue: Catalogue, path: Path) -> None:
    """One Python literal a line, as in the real files, in the order of the items' names."""
    width = len(str(len(catalogue.category_share)))
    with _gzip(path) as file:
        for item in np.argsort(catalogue.number):
            if catalogue.has_metadata[item]:
                category = f"Interest {catalogue.category[item] + 1:0{width}d}"
                line = {"asin": f"B{catalogue.number[item]:09d}", "categories": [["Synthetic", category]]}
                file.write(f"{line!r}\n".encode())


@contextmanager
def _gzip(path: Path) -> Iterator[gzip.GzipFile]:
    """A reproducible .gz file: its header has neither name nor time."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
        yield file
