"""The raw files: the seven of the public competition (Kaggle, Outbrain Click Prediction) that carry training data.

page_views and clicks_test are not read: the first describes visits without ads, the second has no labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.artifacts import Artifact
from components.datasets.definition import RawContract, RawKind

# Events carry milliseconds since this time, in milliseconds since 1970.
EPOCH = 1_465_876_799_998
DAY = 86_400_000
ID, FLAG, NUMBER = "a whole number from 0 on", "0 or 1", "a number"
TIME, TEXT = "a time such as 2016-06-13 08:00:00", "text"


@dataclass(frozen=True)
class Field:
    """A column to read.

    Attributes:
        kind: value type: ID, FLAG, NUMBER, TIME or TEXT.
        required: whether every line must have a value; otherwise empty and \\N are missing values.
    """

    name: str
    kind: str = ID
    required: bool = True


def _terms(name: str, kind: str = ID) -> tuple[Field, ...]:
    return Field("document_id"), Field(name, kind), Field("confidence_level", NUMBER)


CLICKS, EVENTS, ADS, META = "clicks_train", "events", "promoted_content", "documents_meta"
# Kind of document term, as in feature names, to raw file.
TERMS = {"categories": "documents_categories", "topics": "documents_topics", "entities": "documents_entities"}
FIELDS: dict[str, tuple[Field, ...]] = {
    CLICKS: (Field("display_id"), Field("ad_id"), Field("clicked", FLAG)),
    EVENTS: (
        Field("display_id"),
        Field("document_id"),
        Field("timestamp"),
        Field("platform", required=False),
        Field("geo_location", TEXT, required=False),
    ),
    ADS: (
        Field("ad_id"),
        Field("document_id", required=False),
        Field("campaign_id", required=False),
        Field("advertiser_id", required=False),
    ),
    META: (
        Field("document_id"),
        Field("source_id", required=False),
        Field("publisher_id", required=False),
        Field("publish_time", TIME, required=False),
    ),
    TERMS["categories"]: _terms("category_id"),
    TERMS["topics"]: _terms("topic_id"),
    TERMS["entities"]: _terms("entity_id", TEXT),
}
_ROWS = {CLICKS: "clicks", EVENTS: "events", ADS: "ads", META: "documents"} | {
    file: f"document_{kind}" for kind, file in TERMS.items()
}
CONTRACT = RawContract(
    tuple(RawKind(name, rf"{name}\.csv(\.gz)?", f"{name}.csv or {name}.csv.gz", _ROWS[name]) for name in FIELDS),
    unlisted=tuple(f"{name}.csv" for name in FIELDS),
)


def find_raw_files(raw: Artifact) -> dict[str, Path]:
    """The seven files of a raw artifact, by kind.

    Raises:
        KfrecError: one is missing, or exists both plain and compressed.
    """
    return {kind.name: kind.files(raw)[0] for kind in CONTRACT.kinds}
