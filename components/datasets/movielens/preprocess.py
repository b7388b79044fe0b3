"""From ratings and genres to events: ``user \\t movie \\t rating \\t time``, the same with ``::``, or as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pa_csv

from components.checks.profile import CATEGORY, TIME
from components.checks.tables import Profiled
from components.datasets.definition import PreprocessJob, UserHistories
from components.datasets.histories.preprocess import Read, histories_from, samples_from
from components.datasets.histories.sorting import ITEM, NO_CATEGORY, REVIEW, in_nanoseconds, item_schema, without_kinds
from components.datasets.histories.synthetic import USERS_AT_A_TIME, catalogue_of, reviews_of
from components.datasets.movielens import MOVIES, RATINGS
from components.errors import KfrecError
from components.feature_spec.catalogue import shown_title
from components.progress import progress
from components.workflows.key_runs import KeyRuns
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block, RawReader, table_of

_RATING = pa.schema([*REVIEW, ("rating", pa.float64())])
_ORDER = ("reviewerID", "asin", "rating", "unixReviewTime")
_PROFILED = (
    Profiled("reviewerID", CATEGORY, counted=True),
    Profiled("asin", CATEGORY, counted=True),
    Profiled("unixReviewTime", TIME),
)
# The flags of u.item, in their order (u.genre).
_GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
# What ``item_columns`` may name.
_OF_MOVIES = ("title", "year", "genres")
# The end of most titles.
_YEAR = re.compile(r"\((\d{4})\)$")
_NO_GENRE = "(no genres listed)"


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of all splits; see ``components.datasets.histories.preprocess``."""
    # The best possible AUC is that of all ratings.
    return samples_from(replace(job, generation=None) if job.parameters.least_rating else job, _read)


def histories(job: PreprocessJob) -> UserHistories:
    """All movies that every user chose."""
    return histories_from(job, _read)


def _read(job: PreprocessJob, runs: KeyRuns) -> Read:
    parameters = job.parameters
    ratings, movies = RATINGS.files(job.raw), MOVIES.found(job.raw)
    reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
    profiler = job.profiler.table("ratings", _PROFILED, [column.name for column in _PROFILED])
    rated: set[str] = set()
    ratings_read = 0
    for table in reader.tables(ratings, parse_ratings, "ratings", "reading ratings", profiler):
        ratings_read += len(table)
        chosen = table.filter(pc.greater_equal(table["rating"], parameters.least_rating)).select(REVIEW.names)
        rated.update(pc.unique(chosen["asin"]).to_pylist())
        times = in_nanoseconds(chosen["unixReviewTime"].to_numpy(), 1, "time")
        runs.add(without_kinds(chosen.set_column(2, REVIEW.field(2), pa.array(times))))
    if not runs.rows:
        raise KfrecError(f"{ratings[0]}: no rating of at least least_rating={parameters.least_rating:g}; lower it")
    if left_out := ratings_read - runs.rows:
        print(f"{left_out:,} of {ratings_read:,} ratings are left out by least_rating={parameters.least_rating:g}")
    if other := next((name for name in parameters.of_items if name not in (_OF_MOVIES if movies else ())), ""):
        told = ", ".join(_OF_MOVIES) if movies else "no file of movies is there"
        raise KfrecError(f"parameter item_columns: no {other!r} is known of movies ({told}); leave it out")
    of_movies = partial(parse_movies, columns=parameters.of_items)
    items = reader.tables(movies, of_movies, "movies", "reading movies") if movies else [_alike(rated)]
    metadata = (movies or ratings)[0]
    return Read("movielens", "ratings", runs, items, ratings[0], metadata, lambda: reader.malformed_lines)


def parse_ratings(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """User, movie, time and rating of each line of a block, and the malformed lines."""
    first, _, others = block.text.partition(b"\n")
    delimiter = next((each for each in (b"::", b"\t") if each in first), b",")
    if block.first_line == 1 and first.lower().startswith(b"userid"):
        block = replace(block, text=b"\n" + others)
    plain = block.text.replace(b"::", b"\t") if delimiter == b"::" else block.text
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(plain),
            pa_csv.ReadOptions(column_names=_ORDER),
            pa_csv.ParseOptions(delimiter=(delimiter if len(delimiter) == 1 else b"\t").decode(), quote_char=False),
            pa_csv.ConvertOptions(column_types=dict(zip(_RATING.names, _RATING.types, strict=True))),
        ).select(_RATING.names)
        lacks_name = any(pc.any(pc.equal(table[name], "")).as_py() for name in ("reviewerID", "asin"))
        if not lacks_name and not any(column.null_count for column in table.columns):
            return table, []
    except pa.ArrowInvalid:  # some line is malformed
        pass
    rows, bad = block.parsed(lambda line: _rating(line, delimiter))
    return table_of(rows, _RATING), bad


def _rating(line: bytes, delimiter: bytes) -> tuple[str, str, int, float]:
    values = [value.strip() for value in line.decode().split(delimiter.decode())]
    if len(values) != len(_ORDER):
        raise ValueError(f"{len(values)} values; a rating has a user, a movie, a rating and a time")
    user, movie, rating, time = values
    if not (user and movie):
        raise ValueError("no user or no movie")
    try:
        return user, movie, int(time), float(rating)
    except ValueError:
        raise ValueError(f"rating {rating!r} or time {time!r} is no number") from None


def parse_movies(block: Block, columns: Sequence[str] = ()) -> tuple[pa.Table, list[BadLine]]:
    """Each movie with its genres as one category, such as ``Action|Sci-Fi``, and its title; the malformed lines.

    Args:
        columns: of ``_OF_MOVIES``, which follow the title.
    """
    rows, bad = block.parsed(lambda line: _movie(line, columns))
    return table_of([row for row in rows if str(row[0]).lower() != "movieid"], item_schema(columns)), bad


def _movie(line: bytes, columns: Sequence[str]) -> tuple[str | None, ...]:
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:  # titles of u.item and movies.dat
        text = line.decode("latin-1").rstrip("\r\n")
    values = text.split("::") if "::" in text else text.split("|")
    if len(values) == 5 + len(_GENRES):
        genres = "|".join(name for name, flag in zip(_GENRES, values[5:], strict=True) if flag == "1")
    else:
        values = values if "::" in text else next(csv.reader([text]))
        genres = values[-1]
    if len(values) < 3 or not values[0]:
        raise ValueError("no movie with a title and genres")
    known = None if genres in ("", _NO_GENRE) else genres
    title = values[1].strip()
    year = _YEAR.search(title)
    told = {"title": title[: year.start()].rstrip() if year else title, "year": year and year[1], "genres": known}
    return values[0], known, shown_title(values[1]), *(told[name] for name in columns)


def _alike(movies: set[str]) -> pa.Table:
    """Movies of one category, where no file names genres."""
    return table_of([(movie, NO_CATEGORY, None) for movie in sorted(movies)], ITEM)


def write_ratings(parameters: Any, folder: Path) -> None:
    """Generates ratings.csv and movies.csv of the built-in shop's reviews; the same parameters give the same bytes."""
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
