"""Plain tables of users, items and times, whose samples are those of ``amazon_reviews``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.datasets.definition import TABLES, DatasetDefinition, RawContract
from components.datasets.histories.kinds import listed_kinds
from components.datasets.histories.parameters import Generation, GrowingSampling, lengths_of
from components.errors import KfrecError
from components.feature_spec import Channel
from components.feature_spec.event_columns import EventColumn
from components.lazy import Lazy
from components.parameters import param

# Without the column, every item has one category; another name than this must be there.
CATEGORY = "category"
# The same of the kind and the title.
KIND, TITLE = "event", "title"


@dataclass(frozen=True)
class EventGeneration(Generation):
    """Parameters of the synthetic events."""

    synthetic_shop_days: int = param(
        0,
        "Days of a synthetic shop, whose items come and go, and whose customers view, put into the cart and buy; 0 "
        "writes the events of the synthetic users",
        unit="days",
        at_least=0,
        at_most=3_650,
    )

    @property
    def are_reviews(self) -> bool:
        return not self.synthetic_shop_days


@dataclass(frozen=True)
class EventSampling(GrowingSampling):
    """Which columns of the tables are events, and how these become samples."""

    user_column: str = param("user", "Column of the user's id")
    item_column: str = param("item", "Column of the item's id")
    time_column: str = param("timestamp", "Column of the time: seconds, ms, us or ns since 1970, or dates")
    category_column: str = param(
        CATEGORY, "Column of the item's category; if the tables have no column category, all items share one"
    )
    title_column: str = param(
        TITLE,
        "Column of the item's title, by which the report shows it; empty is none, and so is title, if no table has it",
        may_be_empty=True,
    )
    kind_column: str = param(
        KIND,
        "Column of the kind of event, such as view or purchase; empty is none, and so is event, if no table has it",
        may_be_empty=True,
    )
    target_kinds: str = param(
        "", "Kinds of events that are targets, separated by commas, such as purchase; empty is all"
    )
    context_kinds: str = param("", "Kinds of events that are in histories, separated by commas; empty is all")
    kind_weights: str = param(
        "",
        "How much an event counts in the popularity of items and among negatives, by kind, such as "
        "view=0.2,purchase=1; other kinds count 1",
    )
    weight_column: str = param(
        "", "Column of how much an event counts there, times the weight of its kind; empty is 1 for all"
    )
    weighted_loss: bool = param(
        False, "Whether a target counts as much in the training loss, too; it does not in any evaluation"
    )
    event_categories: str = param(
        "",
        "Columns of the events in histories that models read as categories, separated by commas, such as event,device",
    )
    event_numbers: str = param(
        "", "Columns of the events in histories that models read as numbers, separated by commas, such as price"
    )
    known_columns: str = param(
        "",
        "Those of event_categories and event_numbers that are known of the target before it is chosen, too, such as "
        "the device or the user's age; not what tells the item, such as its price",
    )
    time_format: str = param(
        "", "How dates are written, as of strptime, such as %d/%m/%Y; empty is with the year first (ISO 8601)"
    )
    delimiter: str = param(",", "What separates the values of CSV; tab is a tabulator")
    header: str = param("", "Names of the columns, separated by commas, of CSV without a header")

    @property
    def chosen_kinds(self) -> Mapping[str, Sequence[str]]:
        named = {"target_kinds": self.target_kinds, "context_kinds": self.context_kinds}
        return {name: list(listed_kinds(kinds)) for name, kinds in named.items() if listed_kinds(kinds)}

    @property
    def event_columns(self) -> Sequence[EventColumn]:
        categories, numbers, known = map(listed_kinds, (self.event_categories, self.event_numbers, self.known_columns))
        return [EventColumn(name, name in numbers, name in known) for name in dict.fromkeys((*categories, *numbers))]

    @property
    def has_weights(self) -> bool:
        return bool(self.kind_weights or self.weight_column)

    @property
    def weighs_targets(self) -> bool:
        return self.weighted_loss

    @property
    def weights_by_kind(self) -> Mapping[str, float]:
        """The weight of each kind in ``kind_weights``.

        Raises:
            KfrecError: a kind has none, or a negative one.
        """
        weights = {}
        for pair in listed_kinds(self.kind_weights):
            kind, _, text = pair.rpartition("=")
            try:
                weights[kind.strip()] = float(text)
            except ValueError:
                weights[""] = -1.0
        if "" in weights or not all(0 <= weight < math.inf for weight in weights.values()):
            raise KfrecError(
                f"parameter kind_weights={self.kind_weights!r}: give kinds a weight of at least 0 each, such as "
                "view=0.2,purchase=1"
            )
        return weights

    def check(self) -> None:
        """Requires a weight of each kind in ``kind_weights``, weights for the loss, and columns of one use each."""
        super().check()
        _ = self.weights_by_kind
        if self.weighted_loss and not self.has_weights:
            raise KfrecError(
                "parameter weighted_loss=True: all events count 1; name weights with kind_weights or weight_column"
            )
        categories, numbers = listed_kinds(self.event_categories), listed_kinds(self.event_numbers)
        if both := next((name for name in categories if name in numbers), ""):
            raise KfrecError(f"parameter event_numbers: {both!r} is in event_categories, too; name it in one of them")
        if other := next((name for name in listed_kinds(self.known_columns) if name not in categories + numbers), ""):
            raise KfrecError(
                f"parameter known_columns: {other!r} is in neither event_categories nor event_numbers; name it in one "
                "of them, too"
            )

    @property
    def learns_histories(self) -> bool:
        return set(listed_kinds(self.target_kinds)) == set(listed_kinds(self.context_kinds))


DATASET = DatasetDefinition(
    name="events",
    summary="Tables of CSV or parquet files with a user, an item and a time in each row: the next item of a user.",
    raw=RawContract((TABLES,)),
    generation=EventGeneration,
    generate=Lazy("components.datasets.events.synthetic:write_events"),
    sampling=EventSampling,
    preprocess=Lazy("components.datasets.events.preprocess:preprocess"),
    histories=Lazy("components.datasets.events.preprocess:histories"),
    lengths=lengths_of,
    task="click",
    lacks=lambda source, parameters: (Channel.GROUP,),
    raw_rows=Lazy("components.datasets.histories.raw_rows:EventRows"),
    # Users of a shop or a site rarely have the 20 reviews of the published data.
    defaults={"shortest_sequence_for_user": 5, "history_ends": "auto"},
)
