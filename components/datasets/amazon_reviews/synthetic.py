"""Writes the synthetic data set in the format of the 2014 Amazon files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from components.datasets.histories.synthetic import USERS_AT_A_TIME, Catalogue, Reviews, catalogue_of, reviews_of
from components.progress import progress

REVIEWS = "reviews_Synthetic.json.gz"
META = "meta_Synthetic.json.gz"
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
