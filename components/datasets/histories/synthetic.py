"""A synthetic shop: its items, what its users buy, and when.

Categories are of uneven size, and the popularity of items follows a power law.

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
from typing import Any

import numpy as np

_CATEGORY_EXPONENT = 0.5
_ITEM_EXPONENT = 0.8
_WITHOUT_METADATA = 0.01
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
USERS_AT_A_TIME = 4096
# The mean of a user.
REVIEWS_PER_USER = 25


@dataclass(frozen=True)
class Catalogue:
    """Items numbered category by category, the most popular one of each category first.

    Attributes:
        category: int32 [items], the category of each item.
        cumulative: float64 [items], cumulative popularity; the last one is 1.
        category_start: float64 [categories], the popularity of all items before the category.
        category_share: float64 [categories], the popularity of the category; sums to 1.
        number: int64 [items], the number in each item's public name, independent of its popularity.
        has_metadata: bool [items], whether the item has a line of metadata.
        shelf: when each item is for sale; None if always.
    """

    category: np.ndarray
    cumulative: np.ndarray
    category_start: np.ndarray
    category_share: np.ndarray
    number: np.ndarray
    has_metadata: np.ndarray
    shelf: Shelf | None = None

    def any_items(self, days: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws one item per day: by popularity, or uniformly among those for sale. int64, shaped like ``days``."""
        return self._at(rng.random(len(days))) if self.shelf is None else self.shelf.any_items(days, rng)

    def items_of(self, categories: np.ndarray, days: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws one item per category and day, as ``any_items`` within the category: int64, shaped like ``days``."""
        if self.shelf is not None:
            return self.shelf.items_of(categories, days, rng)
        within = rng.random(len(categories)) * self.category_share[categories]
        return self._at(self.category_start[categories] + within)

    def categories(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws categories by popularity: int64 of ``shape``."""
        return np.searchsorted(self.category_start, rng.random(shape), side="right") - 1

    def _at(self, position: np.ndarray) -> np.ndarray:
        return np.minimum(np.searchsorted(self.cumulative, position, side="right"), len(self.cumulative) - 1)


@dataclass(frozen=True)
class Shelf:
    """Items that are for sale for a limited time; those for sale on a day are neighbours in order of their first day.

    Attributes:
        lifetime: days that each item is for sale.
        order: int64 [items], items by first day.
        first_day: float64 [items], of ``order``, ascending.
        by_category: int64 [items], items by category and first day.
        key: float64 [items], of ``by_category``, ascending: the category's span of days and the first day in it.
        span: days of the span of a category.
    """

    lifetime: int
    order: np.ndarray
    first_day: np.ndarray
    by_category: np.ndarray
    key: np.ndarray
    span: float

    def any_items(self, days: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        low = np.searchsorted(self.first_day, days - self.lifetime, side="right")
        high = np.searchsorted(self.first_day, days, side="right")
        return self.order[low + np.floor(rng.random(len(days)) * (high - low)).astype(np.int64)]

    def items_of(self, categories: np.ndarray, days: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As ``any_items`` where nothing of the category is for sale."""
        since = categories * self.span + days + self.lifetime
        low = np.searchsorted(self.key, since - self.lifetime, side="right")
        high = np.searchsorted(self.key, since, side="right")
        position = low + np.floor(rng.random(len(days)) * (high - low)).astype(np.int64)
        items = self.by_category[np.minimum(position, len(self.key) - 1)]
        return np.where(high > low, items, self.any_items(days, rng))


def make_shelf(category: np.ndarray, days: int, lifetime: int, rng: np.random.Generator) -> Shelf:
    """Spreads the items' first days evenly, from a lifetime before the first day on.

    Args:
        category: int32 [items].
    """
    items, span = len(category), days + 2.0 * lifetime
    first_day = rng.permutation((np.arange(items) + rng.random(items)) / items * (days + lifetime) - lifetime)
    order, key = np.argsort(first_day), category * span + first_day + lifetime
    by_category = np.argsort(key)
    return Shelf(lifetime, order, first_day[order], by_category, key[by_category], span)


def make_catalogue(
    items: int, categories: int, rng: np.random.Generator, days: int = 0, lifetime: int = 0
) -> Catalogue:
    """Makes the shop.

    Args:
        items: number of items, at least ``categories``.
        lifetime: days that each item is for sale; 0 is always.
    """
    share = 1.0 / np.arange(1, categories + 1) ** _CATEGORY_EXPONENT
    share /= share.sum()
    # One item each, the rest by popularity, rounded so that the sum is exact.
    spare = items - categories
    sizes = 1 + np.diff(np.floor(np.concatenate(([0.0], np.cumsum(share))) * spare + 1e-9)).astype(np.int64)
    sizes[-1] += items - sizes.sum()
    category = np.repeat(np.arange(categories, dtype=np.int32), sizes)
    rank = np.arange(items) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    weight = 1.0 / (rank + 1.0) ** _ITEM_EXPONENT
    weight *= (share / np.bincount(category, weights=weight))[category]
    start = np.concatenate(([0.0], np.cumsum(share)[:-1]))
    return Catalogue(
        category=category,
        cumulative=np.cumsum(weight),
        category_start=start,
        category_share=share,
        number=rng.permutation(items) + 1,
        has_metadata=rng.random(items) >= _WITHOUT_METADATA,
        shelf=make_shelf(category, days, lifetime, rng) if lifetime else None,
    )


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
        shuffled: ignore the user's interests (the control).
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
