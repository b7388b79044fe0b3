"""Recommendations to a file, batch of users by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.event_lists import items_of
from components.errors import KfrecError
from components.inference.delivery import delivering, is_database
from components.inference.formats import RowsWriter, rows_file, writing
from components.inference.history import PeopleInContext
from components.inference.scoring import replacing
from components.metrics import ListFigures
from components.progress import progress
from components.scoring.catalogue import Catalogue, every_candidate
from components.scoring.recommend import FLAG, Recommended, columns_of, recommend
from components.served_rows.batch import BatchLog

_USERS = 4096
# Columns of lists that say what made them.
MODEL, VERSION = "model", "version"
# The columns of a file of users without a list, and why a user has none.
LEFT_OUT = ("user", "reason")
NO_CANDIDATE = "no candidate is left: all are in the history or excluded"

_FIGURES = {
    "coverage": "coverage {:.1%} of the candidates",
    "novelty": "novelty {:.1f} bits",
    "diversity": "diversity {:.2f}",
}


@dataclass
class Counts:
    """Counts of recommendations.

    Attributes:
        events: items of the histories.
        unknown: of these, items that are not in the model's vocabulary.
        empty: users without a candidate.
        figures: coverage, novelty and diversity of the lists; see ``components.metrics.lists``.
    """

    users: int = 0
    items: int = 0
    flagged: int = 0
    events: int = 0
    unknown: int = 0
    empty: int = 0
    figures: dict[str, float] = field(default_factory=dict)

    def lines(self, catalogue: Catalogue) -> list[str]:
        """What a user has to know of the lists, beside their number."""
        lines = []
        if self.figures:
            lines.append(", ".join(_FIGURES[name].format(value) for name, value in self.figures.items()))
        if self.empty:
            lines.append(f"{self.empty:,} users have no list: {NO_CANDIDATE}")
        if self.flagged:
            why = "they are new, their scores are not trained, or popular ones are listed"
            lines.append(f"{self.flagged:,} of the items are flagged: {why}")
        if self.unknown:
            lines.append(f"{self.unknown:,} of {self.events:,} events are of items that the model does not know")
        if catalogue.note:
            lines.append(f"the model {catalogue.note}")
        return lines


@dataclass(frozen=True)
class Delivery:
    """Where lists go.

    Attributes:
        output: a file, whose suffix gives the format, or the SQLAlchemy URL of a database.
        sources: files that it must not replace.
        model, version: what made the lists; columns of each row.
        table: of a database.
    """

    output: str
    sources: list[Path]
    model: str = ""
    version: str = ""
    table: str = "lists"

    @contextmanager
    def writing(self, catalogue: Catalogue) -> Iterator[Callable[[pa.Table], None]]:
        """Yields a function that takes lists, which appear all at once at the end of the block.

        Raises:
            KfrecError: the file may not be replaced, or the database cannot be used.
        """
        columns = (*columns_of(catalogue), MODEL, VERSION)
        with (
            delivering(self.output, self.table, self.model)
            if is_database(self.output)
            else replaced(Path(self.output), self.sources, columns)
        ) as writer:

            def write(lists: pa.Table) -> None:
                for name, value in ((MODEL, self.model), (VERSION, self.version)):
                    lists = lists.append_column(name, pa.array([value] * len(lists), pa.string()))
                for batch in lists.to_batches():
                    writer.write(batch)

            yield write


def write_lists(
    catalogue: Catalogue,
    people: PeopleInContext,
    top: int,
    delivery: Delivery,
    *,
    keep_seen: bool | None,
    exclusions: Exclusions | None = None,
    per_category: int = 0,
    left_out: Path | None = None,
    log: BatchLog | None = None,
) -> Counts:
    """Writes the best candidates of users, see ``components.scoring.recommend.Recommended``, a batch at a time.

    Args:
        top: largest number of items of a user.
        keep_seen: whether items of the history are candidates, too; None is what the model was judged by.
        exclusions: further items that are no candidates of a user.
        per_category: most items of a category in a list; 0 is any number.
        left_out: file to write the users without a list to, and why they have none.
        log: takes the lists, too.

    Raises:
        KfrecError: an output may not be replaced, there are no users, or none has a candidate.
    """
    counts, known = Counts(), every_candidate(catalogue.raw)
    figures = ListFigures(len(catalogue.names), catalogue.counts, catalogue.known_categories)
    with ExitStack() as opened:
        write = opened.enter_context(delivery.writing(catalogue))
        without = opened.enter_context(replaced(left_out, delivery.sources, LEFT_OUT)) if left_out else None
        bar = opened.enter_context(progress("recommending", None, "users"))
        for users, histories, context in people:
            for first in range(0, len(users), _USERS):
                names, own = (each.slice(first, _USERS) for each in (users, histories))
                lists = recommend(
                    catalogue,
                    names,
                    own,
                    top,
                    keep_seen=keep_seen,
                    excluded=exclusions.of(names) if exclusions else (),
                    per_category=per_category,
                    context={name: values.slice(first, _USERS) for name, values in context.items()},
                    ranked=bar.advance,
                )
                write(lists.table)
                figures.add(_places(lists, catalogue))
                if log is not None:
                    log.listed(lists.table, lists.lengths)
                if without is not None:
                    lacking = names.filter(pa.array(lists.candidates == 0))
                    why = pa.array([NO_CANDIDATE] * len(lacking), pa.string())
                    without.write(pa.RecordBatch.from_arrays([lacking, why], names=LEFT_OUT))
                items = catalogue.spelled(items_of(own).flatten())
                counts.events += len(items)
                counts.unknown += pc.index_in(items, value_set=known, skip_nulls=True).null_count
                counts.users += int(np.count_nonzero(lists.candidates))
                counts.empty += int(np.count_nonzero(lists.candidates == 0))
                counts.items += lists.table.num_rows
                counts.flagged += pc.sum(pc.not_equal(lists.table[FLAG], "")).as_py() or 0
        if counts.empty and not counts.users:
            raise KfrecError(
                f"no candidate is left for any of the {counts.empty:,} users: all {len(catalogue.names):,} are in "
                f"their histories{' or excluded' if exclusions else ''}; --keep-seen lists those of histories, too"
            )
        if not counts.users:
            raise KfrecError("no users to recommend to; name records with --data, or users with --users")
    counts.figures = figures.figures()
    return counts


def _places(lists: Recommended, catalogue: Catalogue) -> np.ndarray:
    """The places of the listed items among the candidates, int64 ``[users, longest list]``, -1 after the last one."""
    places = np.full((len(lists.lengths), int(lists.lengths.max(initial=0))), -1)
    items = lists.table[catalogue.column.name]
    places[np.arange(places.shape[1]) < lists.lengths[:, np.newaxis]] = pc.index_in(items, value_set=catalogue.names)
    return places


@contextmanager
def replaced(output: Path, sources: list[Path], columns: tuple[str, ...]) -> Iterator[RowsWriter]:
    """A writer of rows whose file appears at the end of the block; see ``components.inference.scoring.replacing``."""
    with replacing(output, sources, columns) as partial, writing(partial, rows_file(output)) as writer:
        yield writer


class Exclusions:
    """Items that are not for a user, such as what the user has bought.

    Args:
        pairs: tables with the columns user and item, text.
    """

    def __init__(self, pairs: Sequence[pa.Table]) -> None:
        every = pa.concat_tables(pairs, promote_options="permissive").group_by("user").aggregate([("item", "distinct")])
        self._users, self._items = (every[name].combine_chunks() for name in ("user", "item_distinct"))

    def of(self, users: pa.Array) -> pa.Array:
        """The items of each of these users, list of string; null for none."""
        return self._items.take(pc.index_in(users, value_set=self._users))
