"""Displays: the ads that a user saw on a page; exactly one was clicked. Clicks are joined with their events.

A display is left out, with a reason, unless it has one event, one click, and no ad twice: without its event there is no
page and no time, and without exactly one click there is no ranking to learn or to judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.datasets.outbrain.division import Division
from components.datasets.outbrain.documents import NO_TIME, load_documents
from components.datasets.outbrain.ids import MISSING, Positions, ids_of, text_hashes
from components.datasets.outbrain.raw_files import DAY, EPOCH
from components.datasets.outbrain.statistics import Statistics, count_clicks
from components.workflows.key_runs import KeyRange

CLICK = pa.schema([("display_id", pa.int64()), ("ad_id", pa.int64()), ("clicked", pa.int8())])
EVENT = pa.schema(
    [
        (name, pa.int64())
        for name in ("display_id", "document_id", "timestamp", "platform", "geo_location", "geo_location_state",
                     "geo_location_country")
    ]
)  # fmt: skip
OLDEST_DAYS = 3650
_STATE, _COUNTRY = 5, 2  # characters of geo_location, such as US>CA>803
# The first that applies is reported: a repeated line repeats a click, too.
REASONS = ("no event", "several events", "an ad twice", "no click", "several clicks")


def click_table(lines: pa.Table) -> pa.Table:
    """Lines of clicks_train as a table of the schema ``CLICK``."""
    return lines.select(CLICK.names).cast(CLICK)


def event_table(lines: pa.Table) -> pa.Table:
    """Lines of events as a table of the schema ``EVENT``."""
    geo = lines["geo_location"]
    columns = [
        *(lines[name] for name in ("display_id", "document_id", "timestamp")),
        pa.array(ids_of(lines["platform"])),
        *(pa.array(text_hashes(geo, first)) for first in (0, _STATE, _COUNTRY)),
    ]
    return pa.table(columns, schema=EVENT)


@dataclass(frozen=True)
class Joined:
    """A partition of joined clicks.

    Attributes:
        path: Arrow file with the training rows, then the test rows; columns as ``join_displays`` says.
        days: of the displays that are not left out, from the first to the last; empty if there is none.
        left_out: int64 [n, 2], display and index into REASONS, by ascending display.
    """

    path: Path
    train: int
    test: int
    displays: int
    days: range
    left_out: np.ndarray
    unknown_ads: int
    statistics: Statistics


def join_displays(clicks: KeyRange, events: KeyRange, documents: Path, division: Division, output: Path) -> Joined:
    """Joins the clicks of a partition with events, ads and documents, by ascending display and ad.

    The file has int64 columns of raw ids, MISSING where unknown: display_id, clicked, fold (the number of folds if
    rates exclude none), document_row and document_promo_row (indices into the documents), the ids of
    ``features.BUCKETS``, and in float64 ``days_since_published`` of both documents, NaN where unknown.
    """
    rows, left_out, displays = _clean(clicks, events)
    known = load_documents(documents)
    positions, ads = Positions(known.ids), Positions(known.ads).of(rows["ad_id"])

    def of_ad(values: np.ndarray) -> np.ndarray:
        return _taken(values, ads, MISSING)

    rows["document_id_promo"] = of_ad(known.ad_document)
    rows["campaign_id"] = of_ad(known.campaign)
    rows["advertiser_id"] = of_ad(known.advertiser)
    time = rows.pop("timestamp") + EPOCH
    for suffix in ("", "_promo"):
        at = positions.of(rows[f"document_id{suffix}"])
        rows[f"document{suffix}_row"] = at
        rows[f"source_id{suffix}"] = _taken(known.source, at, MISSING)
        rows[f"publisher_id{suffix}"] = _taken(known.publisher, at, MISSING)
        rows[f"days_since_published{suffix}"] = _age(time, _taken(known.published, at, int(NO_TIME)))

    day = (time - EPOCH) // DAY
    days = range(int(day.min()), int(day.max()) + 1) if len(day) else range(0)
    is_test = division.is_test(rows["display_id"], day)
    fold = division.fold(rows["display_id"])
    train = {name: values[~is_test] for name, values in rows.items()}
    statistics = count_clicks(train, fold[~is_test], division.folds)
    rows["fold"] = np.where(is_test | (division.folds == 1), division.folds, fold)
    order = np.argsort(is_test, kind="stable")
    table = pa.table({name: values[order] for name, values in rows.items()})
    with pa.ipc.new_file(output, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    test = int(is_test.sum())
    return Joined(output, len(is_test) - test, test, displays, days, left_out, int((ads < 0).sum()), statistics)


def _clean(clicks: KeyRange, events: KeyRange) -> tuple[dict[str, np.ndarray], np.ndarray, int]:
    """The clicks of valid displays with their events, the dropped displays, and the number of all."""
    click, event = _columns(clicks.read()), _columns(events.read())
    order = np.lexsort((click["ad_id"], click["display_id"]))
    click = {name: values[order] for name, values in click.items()}
    event_order = np.argsort(event["display_id"], kind="stable")
    event = {name: values[event_order] for name, values in event.items()}

    displays, size = np.unique(click["display_id"], return_counts=True)
    owner = np.repeat(np.arange(len(displays)), size)
    same = (owner[1:] == owner[:-1]) & (click["ad_id"][1:] == click["ad_id"][:-1])
    twice = np.bincount(owner[1:][same], minlength=len(displays)) > 0
    clicked = np.bincount(owner, click["clicked"], len(displays))
    first = np.searchsorted(event["display_id"], np.asarray(displays), side="left")
    last = np.searchsorted(event["display_id"], np.asarray(displays), side="right")
    wrong = np.stack([last == first, last - first > 1, twice, clicked < 1, clicked > 1], axis=1)
    bad = np.asarray(wrong.any(axis=1))
    left_out = np.stack([displays[bad], wrong[bad].argmax(axis=1)], axis=1)

    kept = ~bad[owner]
    at = first[owner[kept]]
    rows = {"display_id": click["display_id"][kept], "clicked": click["clicked"][kept].astype(np.int64)}
    rows["ad_id"] = click["ad_id"][kept]
    rows |= {name: values[at] for name, values in event.items() if name != "display_id"}
    return rows, left_out, len(displays)


def _columns(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy() for name in table.column_names[1:]}


def _taken(values: np.ndarray, positions: np.ndarray, missing: int) -> np.ndarray:
    """Gathers values at indices; ``missing`` at index -1."""
    if not len(values):
        return np.full(len(positions), missing, np.int64)
    return np.where(positions < 0, missing, values[np.maximum(positions, 0)])


def _age(time: np.ndarray, published: np.ndarray) -> np.ndarray:
    """Whole days from publication to the display: 0 where negative or above 3650, NaN where unknown; float64 [n]."""
    known = published != NO_TIME
    days = (time - np.where(known, published, time)) // DAY
    return np.where(known, np.where((days < 0) | (days > OLDEST_DAYS), 0, days), np.nan)
