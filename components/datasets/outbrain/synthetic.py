"""The pages, ads and places of the synthetic data set, and what makes a user click.

Exactly one ad of a display is clicked: ad ``j`` with probability ``exp(u_j) / sum(exp(u))``. The utility ``u`` of an ad
is its quality, plus MATCH if the page that the user reads has the ad's topic, plus LIKING if people in the user's place
like that topic. A model sees the topic of a page, and an ad's through its advertiser.

Topics are equally frequent among pages and ads, and every place likes as many, so a row says next to nothing about the
other ads of its display: the utility is also the optimal score of single rows, which are all that a model sees.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from components.datasets.outbrain.raw_files import ADS, CLICKS, DAY, EPOCH, EVENTS, META, TERMS
from components.progress import progress

TOPICS, REGIONS, LIKED = 12, 24, 3
MATCH, LIKING = 1.6, 1.0
"""What the page's and the place's topics add to an ad's utility."""
_QUALITY_OF_ADVERTISER, _QUALITY_OF_AD = 0.4, 0.6
_ADS_OF_ADVERTISER, _ADS_OF_CAMPAIGN, _PAGES_OF_SOURCE = 8, 4, 10
_WITHOUT_TOPIC = 0.03
_FLATNESS, _EXPONENT = 10.0, 0.6  # of the popularity of pages and ads
DAYS = 13
AT_A_TIME = 16_384
MOST_ADS = 12
_SIZES = np.array([0, 0, 6, 14, 22, 16, 16, 6, 7, 4, 4, 2, 3]) / 100  # share by number of ads; mean 5.2
_DISPLAYS_OF_USER = 3
_UNKNOWN_REGION = 0.02
_LEVEL = 1
_NOT_KNOWN = "\\N"
_ENTITIES_OF_TOPIC = 20
_UNKNOWN_SOURCE, _UNKNOWN_TIME, _WITHOUT_ENTITIES = 0.02, 0.1, 0.3
_CONFIDENCE, _SECOND_CONFIDENCE = 0.8, 0.1
_DAYS_BEFORE = 1500
_OPTIONS = pv.WriteOptions(include_header=False, quoting_style="none")


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


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Writes the seven files, compressed, into ``folder``.

    The same parameters give the same bytes. A few thousand displays are held in memory at a time.
    """
    world = make_world(parameters)
    _write_documents(world, np.random.default_rng([parameters.seed, 2]), folder)
    clicks_header, events_header = (
        ("display_id", "ad_id", "clicked"),
        ("display_id", "uuid", "document_id", "timestamp", "platform", "geo_location"),
    )
    with (
        _file(folder, CLICKS, clicks_header) as clicks,
        _file(folder, EVENTS, events_header) as events,
        progress("generating displays", parameters.synthetic_displays, "displays") as bar,
    ):
        for displays in draw_displays(parameters, world):
            clicks.write(_lines(_clicks(displays, world)))
            events.write(_lines(_events(displays, world)))
            bar.advance(len(displays.number))


def _clicks(displays: Displays, world: World) -> list[Any]:
    row, column = np.nonzero(displays.shown)
    clicked = (column == displays.clicked[row]).astype(np.int8)
    return [displays.number[row], world.ad_number[displays.ads[row, column]], clicked]


def _events(displays: Displays, world: World) -> list[Any]:
    users = pa.array(displays.user).cast(pa.string())
    uuids = pc.binary_join_element_wise("user", users, "")
    documents = world.document_number[displays.page]
    names = pa.array([*_region_names(), _NOT_KNOWN])
    return [displays.number, uuids, documents, displays.time, displays.platform, names.take(pa.array(displays.region))]


def _region_names() -> list[str]:
    """Two thirds of the places are in the US, in states of two regions; the others are in countries of their own."""
    us = [f"US>{chr(65 + region // 2)}{chr(75 + region // 2)}>{500 + region}" for region in range(2 * REGIONS // 3)]
    return us + [f"{chr(66 + region)}{chr(70 + region)}" for region in range(REGIONS - len(us))]


def _write_documents(world: World, rng: np.random.Generator, folder: Path) -> None:
    documents = len(world.document_number)
    topic = np.concatenate([world.page_topic, world.ad_topic])
    published = EPOCH // 1000 - (rng.random(documents) * _DAYS_BEFORE * DAY / 1000).astype(np.int64)
    times = pa.array(published, pa.timestamp("s")).cast(pa.string())
    # Unknown sources and times are of pages, whose sources say nothing; an ad's advertiser tells its topic.
    unknown_source = (rng.random(documents) < _UNKNOWN_SOURCE) & (np.arange(documents) < world.pages)
    meta = [
        world.document_number,
        _or_null(world.source + 1, unknown_source),
        _or_null(world.publisher + 1, unknown_source),
        _or_null(times, rng.random(documents) < _UNKNOWN_TIME),
    ]
    with _file(folder, META, ("document_id", "source_id", "publisher_id", "publish_time")) as file:
        file.write(_lines(meta))
    promoted = [world.ad_number, world.document_number[world.pages :], world.campaign + 1, world.advertiser + 1]
    order = np.argsort(world.ad_number)
    with _file(folder, ADS, ("ad_id", "document_id", "campaign_id", "advertiser_id")) as file:
        file.write(_lines([column[order] for column in promoted]))
    entity_names = np.array([f"{number:032x}" for number in rng.integers(1, 2**62, TOPICS * _ENTITIES_OF_TOPIC)])
    names = {
        "categories": ("category_id", 1000 + 7 * np.arange(TOPICS)),
        "topics": ("topic_id", np.arange(TOPICS)),
    }
    known = np.flatnonzero(topic >= 0)
    for kind, (name, ids) in names.items():
        other = (topic[known] + rng.integers(1, TOPICS, len(known))) % TOPICS
        with _file(folder, TERMS[kind], ("document_id", name, "confidence_level")) as file:
            terms = np.stack([topic[known], other], axis=1).ravel()
            confidences = np.tile([_CONFIDENCE, _SECOND_CONFIDENCE], len(known))
            file.write(_lines([world.document_number[known].repeat(2), ids[terms], confidences]))
    named = known[rng.random(len(known)) >= _WITHOUT_ENTITIES]
    entity = topic[named] * _ENTITIES_OF_TOPIC + rng.integers(0, _ENTITIES_OF_TOPIC, len(named))
    with _file(folder, TERMS["entities"], ("document_id", "entity_id", "confidence_level")) as file:
        confidences = np.round(rng.uniform(0.3, 1, len(named)), 4)
        file.write(_lines([world.document_number[named], pa.array(entity_names[entity]), confidences]))


def _or_null(column: Any, unknown: np.ndarray) -> pa.Array:
    """A column as text, ``\\N`` where unknown."""
    texts = pa.array(column).cast(pa.string())
    return pc.if_else(pa.array(unknown), _NOT_KNOWN, texts)


def _lines(columns: list[Any]) -> memoryview:
    arrays = [pa.array(column) for column in columns]
    sink = pa.BufferOutputStream()
    pv.write_csv(pa.table(arrays, names=[str(number) for number in range(len(arrays))]), sink, _OPTIONS)
    return memoryview(sink.getvalue())


@contextmanager
def _file(folder: Path, name: str, header: tuple[str, ...]) -> Iterator[gzip.GzipFile]:
    """A reproducible .csv.gz file: its header has neither name nor time."""
    with (folder / f"{name}.csv.gz").open("wb") as raw, gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as file:
        file.write(f"{','.join(header)}\n".encode())
        yield file
