"""Ratings of movies, as GroupLens publishes them: the next movie of a user, with the movies before it."""

from __future__ import annotations

from dataclasses import dataclass

from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.datasets.histories.parameters import Generation, Sampling, lengths_of
from components.feature_spec import Channel
from components.lazy import Lazy
from components.parameters import param

RATINGS = RawKind(
    "ratings",
    r"(?i)(u\.data|ratings\.(dat|csv))(\.gz)?",
    "u.data, ratings.dat or ratings.csv (plain or .gz)",
    "ratings",
)
MOVIES = RawKind(
    "movies", r"(?i)(u\.item|movies\.(dat|csv))(\.gz)?", "u.item, movies.dat or movies.csv", "movies", required=False
)


@dataclass(frozen=True)
class RatingSampling(Sampling):
    """Which ratings are events, and how these become samples."""

    least_rating: float = param(
        0.0, "Smallest rating that makes a movie one that the user chose; 0 takes all, as implicit feedback", at_least=0
    )


DATASET = DatasetDefinition(
    name="movielens",
    summary="Ratings of movies in the formats of GroupLens: the next movie of a user.",
    raw=RawContract((RATINGS, MOVIES), unlisted=("ratings.csv", "movies.csv")),
    generation=Generation,
    generate=Lazy("components.datasets.movielens.preprocess:write_ratings"),
    sampling=RatingSampling,
    preprocess=Lazy("components.datasets.movielens.preprocess:preprocess"),
    histories=Lazy("components.datasets.movielens.preprocess:histories"),
    lengths=lengths_of,
    task="click",
    lacks=lambda source, parameters: (Channel.GROUP,),
    raw_rows=Lazy("components.datasets.histories.raw_rows:ReviewRows"),
    defaults={"shortest_sequence_for_user": 5},
)
