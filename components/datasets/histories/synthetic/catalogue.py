"""The items of the synthetic shop: categories of uneven size, and a popularity that follows a power law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_CATEGORY_EXPONENT = 0.5
_ITEM_EXPONENT = 0.8
_WITHOUT_METADATA = 0.01


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
        days: days of the data set.
        lifetime: days that each item is for sale.
        rng: source of randomness.
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
        categories: number of categories.
        rng: source of randomness.
        days: days of the data set.
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
