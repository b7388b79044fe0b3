"""Writes the synthetic data set in the format of the public files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from components.datasets.outbrain.raw_files import ADS, CLICKS, DAY, EPOCH, EVENTS, META, TERMS
from components.datasets.outbrain.synthetic.displays import Displays, draw_displays
from components.datasets.outbrain.synthetic.world import REGIONS, TOPICS, World, make_world
from components.progress import progress

_LEVEL = 1
_NOT_KNOWN = "\\N"
_ENTITIES_OF_TOPIC = 20
_UNKNOWN_SOURCE, _UNKNOWN_TIME, _WITHOUT_ENTITIES = 0.02, 0.1, 0.3
_CONFIDENCE, _SECOND_CONFIDENCE = 0.8, 0.1
_DAYS_BEFORE = 1500
_OPTIONS = pv.WriteOptions(include_header=False, quoting_style="none")


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
