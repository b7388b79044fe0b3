"""Raw rows in, outputs out: the one definition behind the registered model, predict and recommend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components import registry
from components.datasets.event_lists import ITEM, require_lengths
from components.datasets.raw_rows import (
    BESIDE,
    HISTORY,
    NOTHING,
    SEPARATOR,
    Answering,
    Encoded,
    RawColumn,
    RawRows,
    SpelledIds,
    listed,
)
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.scoring.model import ExportedModel, load_model
from components.workflows.values import is_text, plain_type, written_lists

# Output column: the number of a row's ids that are not in the vocabulary.
UNKNOWN = "unknown_ids"


@dataclass(frozen=True)
class Scored:
    """Outputs of rows.

    Attributes:
        outputs: of the model by name, or its answers, ``[n, ...]`` each.
        unknown: column to the number of its ids outside the vocabulary, per row ``[n]``.
    """

    outputs: Mapping[str, np.ndarray]
    unknown: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        return len(next(iter(self.outputs.values())))

    @property
    def unknown_ids(self) -> np.ndarray:
        """Over all columns, int32 ``[n]``."""
        return sum(self.unknown.values(), start=np.zeros(self.rows, np.int32))


@dataclass(frozen=True)
class RawModel:
    """A model that takes raw rows."""

    model: ExportedModel
    rows: RawRows
    dataset: str

    @property
    def columns(self) -> tuple[RawColumn, ...]:
        """The columns that it reads."""
        return self.rows.columns

    @property
    def outputs(self) -> tuple[str, ...]:
        """The output columns: the model's outputs, or its answers, and the number of unknown ids."""
        return (*(self.rows.answers if isinstance(self.rows, Answering) else self.model.outputs), UNKNOWN)

    def nothing(self) -> dict[str, np.ndarray]:
        """The outputs of no rows."""
        if isinstance(self.rows, Answering):
            return {name: np.zeros(0, kind) for name, kind in self.rows.answers.items()}
        return self.model.nothing()

    def column_of(self, role: str) -> RawColumn | None:
        """The column of a role; None if the data set has none."""
        return next((column for column in self.columns if column.role == role), None)

    def spelled(self, column: str, ids: pa.Array) -> pa.Array:
        """Ids as the vocabulary spells them, large string ``[n]``; null for a missing one.

        The one rule for ids in files, requests, candidates and exclusions: text and whole numbers are ids, and so is
        what a data set of ``SpelledIds`` takes.

        Args:
            column: its name, for messages.
            ids: values of a column of users or items, ``[n]``.

        Raises:
            KfrecError: they are of a type that no ids have.
        """
        values = plain_type(column, ids)
        kind = values.type
        is_exact = pa.types.is_null(kind) or is_text(kind) or pa.types.is_integer(kind)
        if isinstance(self.rows, SpelledIds) and not pa.types.is_nested(kind):
            values = self.rows.spelled(values)
        elif not is_exact:
            raise KfrecError(f"column {column} is of the type {kind}; give ids as text")
        return values.cast(pa.large_string())

    def histories(self, column: str, values: pa.Array) -> list[list[str | None] | None]:
        """Lists of ids, oldest first: lists, or text with SEPARATOR between ids; None for a blank one.

        Args:
            column: its name, for messages.
            values: of a column of histories, ``[n]``; the text ``[]`` is the empty list.

        Raises:
            KfrecError: they are of another type, or text is a list as programs write it.
        """
        values = plain_type(column, values)
        if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            ids = iter(self.spelled(column, values.flatten()).to_pylist())
            lengths = pc.list_value_length(values).to_pylist()
            return [None if length is None else list(islice(ids, length)) for length in lengths]
        text = pc.utf8_trim_whitespace(self.spelled(column, values))
        if (written := written_lists(pc.if_else(pc.equal(text, NOTHING), "", text))).any():
            raise KfrecError(
                f"column {column} has {text[int(np.argmax(written))].as_py()!r}, a list as programs write it; give ids "
                f"with {SEPARATOR} between them"
            )
        return [listed(history) if history else None for history in text.to_pylist()]

    def events(self, columns: Mapping[str, pa.Array]) -> list[list[Any] | None]:
        """Events of histories, as ``event_lists`` takes them; None for a blank history.

        Args:
            columns: the history's column and, where the caller has them, those beside it, ``[n]`` each.

        Raises:
            KfrecError: as of ``histories``, or a column has another number of values than the history has items.
        """
        history = self.column_of(HISTORY)
        assert history is not None
        items = self.histories(history.name, columns[history.name])
        names = [column.name for column in self.columns if column.role == BESIDE and column.name in columns]
        sizes = np.array([len(row or []) for row in items], np.int64)
        beside = {}
        for name in names:
            lists = [row or [] for row in self.histories(name, columns[name])]
            require_lengths(sizes, np.array([len(row) for row in lists], np.int64), name)
            beside[name] = [row or [None] * size for row, size in zip(lists, sizes.tolist(), strict=True)]
        if not names:
            return items
        return [
            row and [
                {ITEM: item, **{name: lists[place][number] for name, lists in beside.items()}}
                for number, item in enumerate(row)
            ]
            for place, row in enumerate(items)
        ]  # fmt: skip

    def event_lists(self, events: Sequence[Sequence[Any]]) -> pa.Array:
        """Lists of items, or of events, in the type that the model's lists are made from; see
        ``components.datasets.event_lists``.

        Args:
            events: ids, or mappings of the id and the values beside it.
        """
        names = [column.name for column in self.columns if column.role == BESIDE]
        if not names:
            return pa.array(events, pa.list_(pa.string()))
        kind = pa.struct({name: pa.string() for name in (ITEM, *names)})
        rows = [[_struct(each, names) for each in row] for row in events]
        return pa.array(rows, pa.list_(kind))

    def require(self, names: Iterable[str]) -> None:
        """Checks the names of columns.

        Raises:
            KfrecError: a column that the model reads is missing.
        """
        has = list(names)
        for column in self.columns:
            if column.name not in has:
                raise KfrecError(
                    f"has no column {column.name} ({column.help}); the model reads "
                    f"{', '.join(column.name for column in self.columns)}, and it has {', '.join(has) or 'none'}"
                )

    def begin(self, rows: Mapping[str, pa.Array]) -> Callable[[], Scored]:
        """Encodes rows and starts scoring them; see ``ExportedModel.begin``.

        Args:
            rows: column to values; see ``components.datasets.raw_rows.RawRows.encode``.

        Raises:
            KfrecError: a column is missing or invalid.
        """
        self.require(rows)
        columns = {column.name: plain_type(column.name, rows[column.name]) for column in self.columns}
        read: Encoded = self.rows.encode(columns)
        count = len(read.features[self.model.inputs[0]])
        outputs = self.model.begin(read.features) if count else self.model.nothing
        encoder, parameters = self.rows, self.model.parameters
        if isinstance(encoder, Answering):
            return lambda: Scored(encoder.answer(columns, read, outputs(), parameters), read.unknown)
        return lambda: Scored(outputs(), read.unknown)

    def score(self, rows: Mapping[str, pa.Array]) -> Scored:
        """Encodes and scores rows; see ``begin``."""
        return self.begin(rows)()


def _struct(event: Any, names: Sequence[str]) -> dict[str, str | None]:
    if not isinstance(event, Mapping):
        return {ITEM: event}
    values = {name: event.get(name) for name in names}
    return {ITEM: event[ITEM]} | {name: None if value is None else str(value) for name, value in values.items()}


def load_raw_model(folder: Path | str) -> RawModel:
    """Loads a folder's model with its encoder of raw rows.

    Raises:
        KfrecError: there is no model, or its data set encodes no raw rows.
    """
    return raw_model(load_model(folder))


def raw_model(model: ExportedModel) -> RawModel:
    """A loaded model with its encoder of raw rows.

    Raises:
        KfrecError: its data set encodes no raw rows, or files for encoding are missing.
    """
    name = dataset_of(model.spec)
    make = registry.dataset(name).raw_rows if name else None
    if make is None:
        raise KfrecError(f"{model.folder}: {refusal_of_rows(model.spec)}")
    return RawModel(model, make(model.spec, model.inputs), name)


def refusal_of_rows(spec: FeatureSpec) -> str:
    """Why models of these samples take only encoded features, and the remedy; empty if they take raw rows."""
    name = dataset_of(spec)
    if not name:
        reason = "its feature_spec.yaml names no data set that encodes raw rows, as that of an earlier kfrec"
        return f"{reason}; train again, or score records with the evaluate step"
    dataset = registry.dataset(name)
    if dataset.raw_rows is not None:
        return ""
    why = f", because {dataset.no_raw_rows}" if dataset.no_raw_rows else ""
    return (
        f"the data set {name} encodes no raw rows{why}; bring new raw files to preprocess, with workflow naming the "
        "model's data, and score the records with the evaluate step"
    )


def dataset_of(spec: FeatureSpec) -> str:
    """The samples' data set, as recorded by preprocessing; empty if unknown."""
    noted = spec.metadata.get("encoding")
    return str(noted.get("dataset") or "") if isinstance(noted, dict) else ""
