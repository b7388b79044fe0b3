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
    """

    category: np.ndarray
    cumulative: np.ndarray
    category_start: np.ndarray
    category_share: np.ndarray
    number: np.ndarray
    has_metadata: np.ndarray

    def any_items(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws items by popularity: int64 [count]."""
        return self._at(rng.random(count))

    def items_of(self, categories: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws one item per category by popularity within it: int64, shaped like ``categories``."""
        within = rng.random(len(categories)) * self.category_share[categories]
        return self._at(self.category_start[categories] + within)

    def categories(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws categories by popularity: int64 of ``shape``."""
        return np.searchsorted(self.category_start, rng.random(shape), side="right") - 1

    def _at(self, position: np.ndarray) -> np.ndarray:
        return np.minimum(np.searchsorted(self.cumulative, position, side="right"), len(self.cumulative) - 1)


def make_catalogue(items: int, categories: int, rng: np.random.Generator) -> Catalogue:
    """Makes the shop.

    Args:
        items: number of items, at least ``categories``.
        categories: number of categories.
        rng: source of randomness.
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
    )
