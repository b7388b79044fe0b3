"""Displays of the synthetic data set, drawn a few thousand at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.datasets.outbrain.raw_files import DAY
from components.datasets.outbrain.synthetic.world import REGIONS, World

DAYS = 13
AT_A_TIME = 16_384
MOST_ADS = 12
_SIZES = np.array([0, 0, 6, 14, 22, 16, 16, 6, 7, 4, 4, 2, 3]) / 100  # share by number of ads; mean 5.2
_DISPLAYS_OF_USER = 3
_UNKNOWN_REGION = 0.02


@dataclass(frozen=True)
class Displays:
    """Displays in order of time.

    Attributes:
        number: int64 [n], display_id.
        user: int64 [n].
        page: int64 [n], document that the user reads.
        time: int64 [n], milliseconds since the first day began.
        platform: int64 [n], 1 to 3.
        region: int64 [n], the user's; REGIONS where unknown.
        ads: int64 [n, MOST_ADS], unique within a display.
        shown: bool [n, MOST_ADS], mask of the ads; the rest of a row is padding.
        utility: float64 [n, MOST_ADS], 0 where labels are shuffled.
        clicked: int64 [n], column of the clicked ad.
    """

    number: np.ndarray
    user: np.ndarray
    page: np.ndarray
    time: np.ndarray
    platform: np.ndarray
    region: np.ndarray
    ads: np.ndarray
    shown: np.ndarray
    utility: np.ndarray
    clicked: np.ndarray


def draw_displays(parameters: Any, world: World) -> Iterator[Displays]:
    """All displays of the download step's parameters; the same parameters give the same displays."""
    total = parameters.synthetic_displays
    users = total // _DISPLAYS_OF_USER + 1
    for first in range(0, total, AT_A_TIME):
        rng = np.random.default_rng([parameters.seed, 1, first])
        yield _draw(
            first, min(AT_A_TIME, total - first), total, users, world, parameters.synthetic_shuffled_labels, rng
        )


def _draw(
    first: int, count: int, total: int, users: int, world: World, shuffled: bool, rng: np.random.Generator
) -> Displays:
    user = rng.integers(0, users, count)
    page = np.searchsorted(world.page_popularity, rng.random(count), side="right")
    # Region and platform are functions of the user's number, so users need no state.
    region = np.where(_share_of(user, 1) < _UNKNOWN_REGION, REGIONS, _share_of(user, 2) * REGIONS).astype(np.int64)
    platform = 1 + np.searchsorted([0.4, 0.85], _share_of(user, 3), side="right")
    sizes = rng.choice(len(_SIZES), count, p=_SIZES)
    shown = np.arange(MOST_ADS) < sizes[:, None]
    ads = _distinct(world.ad_popularity, count, rng)
    utility = np.zeros(ads.shape) if shuffled else world.utility(ads, page, region)
    # Gumbel-max trick: samples from the softmax of the utilities.
    clicked = np.where(shown, utility + rng.gumbel(size=ads.shape), -np.inf).argmax(axis=1)
    time = np.floor((first + np.sort(rng.random(count)) * count) / total * DAYS * DAY).astype(np.int64)
    return Displays(first + 1 + np.arange(count), user, page, time, platform, region, ads, shown, utility, clicked)


def _share_of(user: np.ndarray, stream: int) -> np.ndarray:
    """A uniform number in [0, 1) for each user."""
    return (user + 1) * (0.6180339887498949 + stream * 0.17320508) % 1.0


def _distinct(popularity: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws MOST_ADS different ads for each display by popularity: int64 [count, MOST_ADS]."""
    ads = np.searchsorted(popularity, rng.random((count, MOST_ADS)), side="right")
    rows = np.arange(count)
    while len(rows):
        order = np.argsort(ads[rows], axis=1, kind="stable")
        ordered = np.take_along_axis(ads[rows], order, axis=1)
        row, column = np.nonzero(ordered[:, 1:] == ordered[:, :-1])
        again = rows[row], order[row, column + 1]
        ads[again] = np.searchsorted(popularity, rng.random(len(row)), side="right")
        rows = np.unique(again[0])
    return ads
