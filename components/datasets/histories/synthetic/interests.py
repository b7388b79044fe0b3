"""What the users of the synthetic shop buy, and when.

A user has a few interests at a time, taken from a sequence of categories along which they drift. Reviews come in runs:
most stay with one interest until the user switches to another current one, and about one in seven is of a random item.
So the recent history predicts the next category, and the older history the alternatives.

Interests are drawn by the popularity of the categories, and items by their popularity within a category, or uniformly
among those for sale. The popularity of an item is therefore the same over all reviews, over any user's last ones, and
in the control without interests, at any time: only the history distinguishes a true target from a contemporary
negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from components.datasets.histories.synthetic.catalogue import Catalogue

INTERESTS = (2, 4)
"""Fewest and most interests that a user has at a time."""
REVIEWS_PER_DRIFT = 12
"""Reviews after which the oldest of the current interests gives way to a new one."""
STAY = 0.75
"""Probability that a review stays with the interest of the one before."""
STRAY = 0.15
"""Share of reviews about an item of any category."""

_SHORT_USERS = 0.05
_SHORT_SHARE = 0.6
_FEWEST_SHARE = 0.8
_TAIL_SIGMA = 1.2
_MOST_SHARE = 20
_LONGEST_GAP = 90.0  # days
_DAY = 86_400
_OPENING = 832_550_400 // _DAY  # 1996-05-20, the first day of the 2014 data
DAYS = 6_600
"""Days of the data, to July 2014."""


@dataclass(frozen=True)
class Reviews:
    """Reviews, one array element each, in order of time.

    Attributes:
        user: int64, number of the user, from 0.
        item: int64, number of the item in the catalogue.
        time: int64, seconds since 1970; a user never writes two reviews at the same time.
        rating: int64, 1 to 5 stars.
    """

    user: np.ndarray
    item: np.ndarray
    time: np.ndarray
    rating: np.ndarray


@dataclass(frozen=True)
class Interests:
    """The interests behind reviews, one array element each, in the order of ``Reviews``.

    Attributes:
        owner: int64 [reviews], the user, from 0.
        category: int64 [reviews], of the interest behind the review, also where the review itself strays.
        first: int64 [reviews], the oldest current interest, a column of ``row``.
        at_a_time: int64 [reviews], number of current interests.
        row: int64 [users, interests], the categories along which each user drifts.
    """

    owner: np.ndarray
    category: np.ndarray
    first: np.ndarray
    at_a_time: np.ndarray
    row: np.ndarray


def draw_reviews(
    first_user: int, users: int, mean: int, shuffled: bool, catalogue: Catalogue, rng: np.random.Generator
) -> tuple[Reviews, Interests | None]:
    """Draws all reviews of the users ``first_user`` to ``first_user + users - 1``.

    The interests are None if they are ignored.

    Args:
        first_user: number of the first user.
        users: number of users.
        mean: mean number of reviews per user.
        shuffled: ignore the user's interests (the control).
        catalogue: the items.
        rng: source of randomness.
    """
    lengths = _lengths(users, mean, rng)
    owner = np.repeat(np.arange(users), lengths)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    day = _days(lengths, owner, rng)
    interests = None if shuffled else _interests(owner, position, users, catalogue, rng)
    if interests is None:
        item = catalogue.any_items(day, rng)
    else:
        item = catalogue.items_of(interests.category, day, rng)
        stray = rng.random(len(owner)) < STRAY
        item[stray] = catalogue.any_items(day[stray], rng)
    time = (_OPENING + day) * _DAY
    rating = rng.choice(np.arange(1, 6), len(owner), p=(0.06, 0.06, 0.10, 0.20, 0.58))
    order = np.argsort(time, kind="stable")
    return Reviews(first_user + owner[order], item[order], time[order], rating[order]), _ordered(interests, order)


def _ordered(interests: Interests | None, order: np.ndarray) -> Interests | None:
    if interests is None:
        return None
    owner, category, first, at_a_time = (
        column[order] for column in (interests.owner, interests.category, interests.first, interests.at_a_time)
    )
    return Interests(owner, category, first, at_a_time, interests.row)


def _lengths(users: int, mean: int, rng: np.random.Generator) -> np.ndarray:
    """Reviews per user: most a little above a minimum, a few very many, and one in twenty below it."""
    short = rng.random(users) < _SHORT_USERS
    few = 1 + np.floor(rng.random(users) * max(1.0, _SHORT_SHARE * mean)).astype(np.int64)
    fewest = np.ceil(_FEWEST_SHARE * mean)
    long_mean = (mean - _SHORT_USERS * (1 + _SHORT_SHARE * mean) / 2) / (1 - _SHORT_USERS)
    # The mean of a log-normal is exp(mu + sigma^2 / 2); rounding to the nearest keeps it.
    tail = np.exp(rng.normal(-(_TAIL_SIGMA**2) / 2, _TAIL_SIGMA, users)) * max(0.0, long_mean - fewest)
    many = np.minimum(fewest + np.rint(tail), _MOST_SHARE * mean).astype(np.int64)
    return np.where(short, few, np.maximum(many, 1))


def _interests(
    owner: np.ndarray, position: np.ndarray, users: int, catalogue: Catalogue, rng: np.random.Generator
) -> Interests:
    begins = (rng.random(len(owner)) >= STAY) | (position == 0)
    run = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    phase = rng.integers(0, REVIEWS_PER_DRIFT, users)
    drift = (position + phase[owner]) // REVIEWS_PER_DRIFT
    at_a_time = rng.integers(INTERESTS[0], INTERESTS[1] + 1, users)[owner]
    slot = drift[starts] + np.floor(rng.random(len(starts)) * at_a_time[starts]).astype(np.int64)
    row = catalogue.categories((users, int((drift + at_a_time).max())), rng)
    return Interests(owner, row[owner[starts], slot][run], drift, at_a_time, row)


def _days(lengths: np.ndarray, owner: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The day of each review, from 0 on: days apart, strictly ascending within a user.

    Users begin at any time, so that at any time some are new and others have a long history.
    """
    longest_gap = np.minimum(_LONGEST_GAP, DAYS / 2 / lengths)
    gap = 1 + np.floor(rng.random(len(owner)) * longest_gap[owner]).astype(np.int64)
    total = np.cumsum(gap)
    first = np.cumsum(lengths) - lengths
    since = total - np.repeat(total[first], lengths)
    start = np.floor(rng.random(len(lengths)) * (DAYS - since[first + lengths - 1])).astype(np.int64)
    return start[owner] + since
