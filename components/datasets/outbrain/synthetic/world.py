"""The pages, ads and places of the synthetic data set, and what makes a user click.

Exactly one ad of a display is clicked: ad ``j`` with probability ``exp(u_j) / sum(exp(u))``. The utility ``u`` of an ad
is its quality, plus MATCH if the page that the user reads has the ad's topic, plus LIKING if people in the user's place
like that topic. A model sees the topic of a page, and an ad's through its advertiser.

Topics are equally frequent among pages and ads, and every place likes as many, so a row says next to nothing about the
other ads of its display: the utility is also the optimal score of single rows, which are all that a model sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

TOPICS, REGIONS, LIKED = 12, 24, 3
MATCH, LIKING = 1.6, 1.0
"""What the page's and the place's topics add to an ad's utility."""
_QUALITY_OF_ADVERTISER, _QUALITY_OF_AD = 0.4, 0.6
_ADS_OF_ADVERTISER, _ADS_OF_CAMPAIGN, _PAGES_OF_SOURCE = 8, 4, 10
_WITHOUT_TOPIC = 0.03
_FLATNESS, _EXPONENT = 10.0, 0.6  # of the popularity of pages and ads


@dataclass(frozen=True)
class World:
    """Pages are documents 0 to pages - 1; ad i leads to document pages + i.

    Attributes:
        ad_topic: int64 [ads].
        quality: float64 [ads].
        ad_popularity: float64 [ads], cumulative; the last one is 1.
        advertiser: int64 [ads].
        campaign: int64 [ads].
        ad_number: int64 [ads], the public id, independent of the ad.
        page_topic: int64 [pages], -1 for a page without known topics.
        page_popularity: float64 [pages], cumulative.
        source: int64 [documents].
        publisher: int64 [documents].
        document_number: int64 [documents], the public id.
        likes: bool [REGIONS + 1, TOPICS]; people in the last region, which is not known, like nothing in particular.
    """

    ad_topic: np.ndarray
    quality: np.ndarray
    ad_popularity: np.ndarray
    advertiser: np.ndarray
    campaign: np.ndarray
    ad_number: np.ndarray
    page_topic: np.ndarray
    page_popularity: np.ndarray
    source: np.ndarray
    publisher: np.ndarray
    document_number: np.ndarray
    likes: np.ndarray

    @property
    def pages(self) -> int:
        return len(self.page_topic)

    def utility(self, ads: np.ndarray, pages: np.ndarray, regions: np.ndarray) -> np.ndarray:
        """The utility of ads [n, k] on pages [n] to users in places [n]: float64 [n, k]."""
        topic = self.ad_topic[ads]
        match = topic == self.page_topic[pages][:, None]
        return self.quality[ads] + MATCH * match + LIKING * self.likes[regions[:, None], topic]


def make_world(parameters: Any) -> World:
    """The world of the download step's parameters."""
    ads, pages = parameters.synthetic_ads, parameters.synthetic_documents
    rng = np.random.default_rng([parameters.seed, 0])
    advertiser = np.arange(ads) // _ADS_OF_ADVERTISER
    advertisers = int(advertiser[-1]) + 1
    page_topic = rng.permutation(pages) % TOPICS
    # Sources and publishers of pages write about anything; those of ads belong to their advertiser.
    source = np.concatenate([rng.integers(0, pages // _PAGES_OF_SOURCE + 1, pages), pages + advertiser])
    likes = np.zeros((REGIONS + 1, TOPICS), bool)
    for region in range(REGIONS):
        likes[region, (region + np.arange(LIKED) * (TOPICS // LIKED)) % TOPICS] = True
    return World(
        ad_topic=advertiser % TOPICS,
        quality=rng.normal(0, _QUALITY_OF_ADVERTISER, advertisers)[advertiser] + rng.normal(0, _QUALITY_OF_AD, ads),
        ad_popularity=_popularity(ads, rng),
        advertiser=advertiser,
        campaign=np.arange(ads) // _ADS_OF_CAMPAIGN,
        ad_number=rng.permutation(ads) + 1,
        page_topic=np.where(rng.random(pages) < _WITHOUT_TOPIC, -1, page_topic),
        page_popularity=_popularity(pages, rng),
        source=source,
        publisher=source // 4,
        document_number=rng.permutation(pages + ads) + 1,
        likes=likes,
    )


def _popularity(count: int, rng: np.random.Generator) -> np.ndarray:
    weight = (_FLATNESS + rng.permutation(count)) ** -_EXPONENT
    cumulative = np.cumsum(weight / weight.sum())
    cumulative[-1] = 1.0
    return cumulative
