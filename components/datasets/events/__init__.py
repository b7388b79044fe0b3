"""Plain tables of users, items and times, whose samples are those of ``amazon_reviews``."""

from __future__ import annotations

from dataclasses import dataclass

from components.datasets.definition import TABLES, DatasetDefinition, RawContract
from components.datasets.histories.parameters import Generation, Sampling, lengths_of
from components.lazy import Lazy
from components.parameters import param

# Without the column, every item has one category; another name than this must be there.
CATEGORY = "category"


@dataclass(frozen=True)
class EventSampling(Sampling):
    """Which columns of the tables are events, and how these become samples."""

    user_column: str = param("user", "Column of the user's id")
    item_column: str = param("item", "Column of the item's id")
    time_column: str = param("timestamp", "Column of the time: seconds, ms, us or ns since 1970, or dates")
    category_column: str = param(
        CATEGORY, "Column of the item's category; if the tables have no column category, all items share one"
    )
    time_format: str = param(
        "", "How dates are written, as of strptime, such as %d/%m/%Y; empty is with the year first (ISO 8601)"
    )
    delimiter: str = param(",", "What separates the values of CSV; tab is a tabulator")
    header: str = param("", "Names of the columns, separated by commas, of CSV without a header")


DATASET = DatasetDefinition(
    name="events",
    summary="Tables of CSV or parquet files with a user, an item and a time in each row: the next item of a user.",
    raw=RawContract((TABLES,)),
    generation=Generation,
    generate=Lazy("components.datasets.events.synthetic:write_events"),
    sampling=EventSampling,
    preprocess=Lazy("components.datasets.events.preprocess:preprocess"),
    histories=Lazy("components.datasets.events.preprocess:histories"),
    lengths=lengths_of,
    raw_rows=Lazy("components.datasets.histories.raw_rows:EventRows"),
    # Users of a shop or a site rarely have the 20 reviews of the published data.
    defaults={"shortest_sequence_for_user": 5},
)
