"""A synthetic shop: items that come and go, and customers who view, put into the cart and buy what suits their taste.

Items and customers have vectors of taste. On a visit a customer views items one after the other: one of the series of
the item before, one that was viewed on an earlier visit and not bought, or any item for sale, drawn by

    exp(taste of the customer . taste of the item + appeal of the item + novelty of the item + season of its category)

A viewed item goes into the cart, and from there is bought, the likelier the better it suits the customer's taste and
purse. What is bought is neither viewed nor bought again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

VIEW, CART, PURCHASE = 0, 1, 2
KINDS = ("view", "cart", "purchase")
DEVICES = ("computer", "phone")
OPENING = 1_704_067_200
"""The first day, 2024-01-01, in seconds since 1970."""
DAY = 86_400
_WIDTH = 16
_SERIES = 8  # items
_WORDS = 5
"""Words of a title, of two for each float of a taste."""
_UNTOLD = 0.15
"""Deviation of what titles say from the taste, whose floats have one of 0.25."""
_TASTE, _APPEAL, _NOVELTY = 1.6, 1.2, 0.8
_NEW_FOR = 4.0  # days
_LIFETIME = 40.0  # days, the mean
_SEASONS = 28.0  # days
_SEASON_SHIFT = 0.618
"""What the season of a category lags behind that of the one before, as a share of the period."""
_FROM_THE_BEGINNING = 0.6
"""Share of the customers who know the shop on the first day."""
_STAYS_FOR = 60.0  # days, the mean
_VISITS, _VIEWS = 0.25, 5.0
"""Visits of a customer a day, and views of a visit; the means."""
_SAME_SERIES, _VIEWED_BEFORE = 0.35, 0.15
"""Shares of the views after the first one of a visit."""


@dataclass(frozen=True)
class Shelf:
    """The items of the shop.

    Attributes:
        category: int64 [items].
        series: int64 [items], ascending; items of a series have one category and are for sale at about the same time.
        price: float64 [items].
        taste: float32 [items, width].
        appeal: float64 [items].
        first_day: float64 [items], the first day for sale.
        last_day: float64 [items], the end of the last one.
    """

    category: np.ndarray
    series: np.ndarray
    price: np.ndarray
    taste: np.ndarray
    appeal: np.ndarray
    first_day: np.ndarray
    last_day: np.ndarray

    def for_sale(self, day: int) -> np.ndarray:
        """The items that are for sale on a day, int64, ascending."""
        return np.flatnonzero((self.first_day <= day) & (self.last_day > day))


@dataclass(frozen=True)
class ShopEvents:
    """Events in order of time, one array element each.

    Attributes:
        user: int64, from 0.
        item: int64, from 0.
        time: int64, milliseconds since 1970.
        kind: int64, a place in KINDS.
    """

    user: np.ndarray
    item: np.ndarray
    time: np.ndarray
    kind: np.ndarray


def make_shelf(items: int, categories: int, days: int, rng: np.random.Generator) -> Shelf:
    """Fills the shop; items of ``days`` days, of which about as many are for sale on each."""
    series = np.arange(items) // _SERIES
    count = int(series[-1]) + 1
    of_series = rng.choice(categories, count, p=_uneven(categories))
    centre = rng.normal(size=(categories, _WIDTH))
    style = centre[of_series] + 0.7 * rng.normal(size=(count, _WIDTH))
    taste = style[series] + 0.4 * rng.normal(size=(items, _WIDTH))
    first = rng.uniform(-_LIFETIME, days, count)[series] + rng.uniform(0, 3, items)
    price = np.exp(rng.normal(2.5, 0.8, categories)[of_series] + rng.normal(0, 0.3, count))[series]
    return Shelf(
        category=of_series[series],
        series=series,
        price=np.round(price, 2),
        taste=(taste / np.linalg.norm(taste, axis=1, keepdims=True)).astype(np.float32),
        appeal=_APPEAL * rng.normal(size=items),
        first_day=first,
        last_day=first + rng.gamma(4, _LIFETIME / 4, items),
    )


def simulate(shelf: Shelf, users: int, days: int, rng: np.random.Generator, season: float = 0.0) -> ShopEvents:
    """Lets customers visit the shop for some days.

    Args:
        season: how much a category's season raises the appeal of its items, at most; each category has one in 28 days.
    """
    return Customers(shelf, users, days, rng, season).events()


def devices_of(events: ShopEvents, rng: np.random.Generator) -> np.ndarray:
    """Where each event's visit took place, places in DEVICES, int64 ``[events]``: customers have a favourite, and buy
    rather at a computer."""
    days = (events.time // 1000 - OPENING) // DAY
    visits, visit = np.unique(events.user * (days.max(initial=0) + 1) + days, return_inverse=True)
    buys = np.bincount(visit, events.kind == PURCHASE, len(visits)) > 0
    likes_phone = rng.beta(1.5, 1, events.user.max(initial=-1) + 1)[visits // (days.max(initial=0) + 1)]
    return (rng.random(len(visits)) < np.where(buys, 0.5, 1.0) * likes_phone).astype(np.int64)[visit]


def titles_of(shelf: Shelf, rng: np.random.Generator) -> list[str]:
    """A title of each item, whose words tell something of its taste."""
    said = shelf.taste + _UNTOLD * rng.normal(size=shelf.taste.shape)
    strongest = np.argsort(-np.abs(said), axis=1)[:, :_WORDS]
    words = 2 * strongest + (np.take_along_axis(said, strongest, 1) > 0)
    return [" ".join(f"word{word}" for word in title) for title in words.tolist()]


def _uneven(count: int) -> np.ndarray:
    share = 1 / np.sqrt(np.arange(1, count + 1))
    return share / share.sum()


class Customers:
    """Customers, before their first visit.

    Attributes:
        interest: the category that each one names when asked, int64 ``[users]``.
    """

    def __init__(self, shelf: Shelf, users: int, days: int, rng: np.random.Generator, season: float = 0.0) -> None:
        self._shelf, self._days, self._rng, self._season = shelf, days, rng, season
        liked, share = rng.integers(0, len(shelf.taste), (users, 3)), rng.dirichlet(np.ones(3), users)
        self.interest = shelf.category[liked[np.arange(users), share.argmax(1)]]
        taste = np.einsum("ukw,uk->uw", shelf.taste[liked], share)
        strength = _TASTE * rng.gamma(4, 1, (users, 1))
        self._taste = (strength * taste / np.linalg.norm(taste, axis=1, keepdims=True)).astype(np.float32)
        self._thrift = rng.gamma(2, 0.25, users)
        arrives = rng.uniform(0, days, users)
        self._arrives = np.where(rng.random(users) < _FROM_THE_BEGINNING, 0, arrives).astype(np.int64)
        self._leaves = self._arrives + 1 + rng.exponential(_STAYS_FOR, users)
        self._visits = rng.beta(1, 1 / _VISITS - 1, users)
        self._viewed, self._bought = (np.zeros((users, len(shelf.series)), bool) for _ in range(2))

    def events(self) -> ShopEvents:
        """Lets them visit the shop, once."""
        parts = [part for day in range(self._days) for part in self._of_day(day)]
        user, item, time, kind = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((kind, time))
        return ShopEvents(user[order], item[order], time[order], kind[order])

    def _of_day(self, day: int) -> list[tuple[np.ndarray, ...]]:
        """The events of a day, in parts."""
        rng, shelf = self._rng, self._shelf
        comes = (self._arrives <= day) & (self._leaves > day)
        comes &= (rng.random(len(comes)) < self._visits) | (self._arrives == day)
        users, items = np.flatnonzero(comes), shelf.for_sale(day)
        views = rng.poisson(_VIEWS - 1, len(users)) + 1
        novelty = _NOVELTY * np.exp((shelf.first_day[items] - day) / _NEW_FOR)
        season = self._season * np.sin(2 * np.pi * (day / _SEASONS - shelf.category[items] * _SEASON_SHIFT))
        appeal = (shelf.appeal[items] + novelty + season).astype(np.float32)
        utility = self._taste[users] @ shelf.taste[items].T + appeal
        cumulative = np.cumsum(np.exp(utility), 1, dtype=np.float64)
        # Row after row, each from its number to the next.
        ascending = (cumulative / cumulative[:, -1:] + np.arange(len(users))[:, np.newaxis]).ravel()
        begins = rng.normal(15, 4, len(users)).clip(0, 22) * 3600 + OPENING + day * DAY
        again = self._viewed_before(users, items)
        parts, before, time = [], np.full(len(users), -1), begins * 1000
        for number in range(views.max(initial=0)):
            visits = np.flatnonzero(views > number)
            drawn = np.searchsorted(ascending, visits + rng.random(len(visits)))
            place = np.minimum(drawn - visits * len(items), len(items) - 1)
            if number:
                draw = rng.random(len(visits))
                same = draw < _SAME_SERIES
                place[same] = self._of_series(items, before[visits[same]])
                known = ~same & (draw < _SAME_SERIES + _VIEWED_BEFORE) & (again[visits] >= 0)
                place[known] = again[visits[known]]
            before[visits] = place
            time[visits] += rng.exponential(45_000, len(visits)) + 1000
            parts += self._choices(users[visits], items[place], utility[visits, place], time[visits])
        return parts

    def _of_series(self, items: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Draws an item of the same series, as its place."""
        series = self._shelf.series[items]
        low, high = np.searchsorted(series, series[places]), np.searchsorted(series, series[places], side="right")
        return low + np.floor(self._rng.random(len(places)) * (high - low)).astype(np.int64)

    def _viewed_before(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The place of an item of each user's earlier visits that is still for sale and not bought; -1 without one."""
        visits, wanted = np.nonzero((self._viewed[users] & ~self._bought[users])[:, items])
        low, high = (np.searchsorted(visits, np.arange(len(users)), side=side) for side in ("left", "right"))
        drawn = low + np.floor(self._rng.random(len(users)) * (high - low)).astype(np.int64)
        places = np.full(len(users), -1)
        has = high > low
        places[has] = wanted[drawn[has]]
        return places

    def _choices(
        self, users: np.ndarray, items: np.ndarray, utility: np.ndarray, time: np.ndarray
    ) -> list[tuple[np.ndarray, ...]]:
        """What comes of some views: VIEW, and for some of them CART and PURCHASE."""
        rng, time = self._rng, time.astype(np.int64)
        new = ~self._bought[users, items]
        users, items, utility, time = users[new], items[new], utility[new], time[new]
        self._viewed[users, items] = True
        suits = utility - 4.0 - self._thrift[users] * (np.log(self._shelf.price[items]) - 2.5)
        cart = rng.random(len(users)) < 0.3 / (1 + np.exp(-suits))
        buys = cart & (rng.random(len(users)) < 0.6)
        self._bought[users[buys], items[buys]] = True
        return [
            (users[chosen], items[chosen], time[chosen] + late, np.full(np.count_nonzero(chosen), kind))
            for kind, chosen, late in (
                (VIEW, np.ones(len(users), bool), 0),
                (CART, cart, 4_000),
                (PURCHASE, buys, 9_000),
            )
        ]
