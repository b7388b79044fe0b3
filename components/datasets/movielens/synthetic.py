"""The built-in shop's reviews as ratings.csv and movies.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from components.datasets.histories.synthetic import USERS_AT_A_TIME, catalogue_of, reviews_of
from components.progress import progress


def write_ratings(parameters: Any, folder: Path) -> None:
    """Generates both files in ``folder``; the same parameters give the same bytes."""
    users, catalogue = parameters.synthetic_users, catalogue_of(parameters)
    with (folder / "movies.csv").open("w") as file:
        file.write("movieId,title,genres\n")
        for item in np.argsort(catalogue.number):
            genre = f"Genre {catalogue.category[item] + 1}" if catalogue.has_metadata[item] else "(no genres listed)"
            file.write(f'{catalogue.number[item]},"Movie {catalogue.number[item]}, a synthetic one",{genre}\n')
    with (folder / "ratings.csv").open("w") as file, progress("generating ratings", users, "users") as bar:
        file.write("userId,movieId,rating,timestamp\n")
        for first in range(0, users, USERS_AT_A_TIME):
            count = min(USERS_AT_A_TIME, users - first)
            reviews, _ = reviews_of(parameters, catalogue, first, count)
            columns = (reviews.user + 1, catalogue.number[reviews.item], reviews.rating, reviews.time)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            file.write("".join(f"{user},{movie},{rating}.0,{time}\n" for user, movie, rating, time in rows))
            bar.advance(count)
