"""Raw rows of reviews: a user, the history, and a candidate item. Categories come from the catalogue.

Columns of events that a model reads are columns beside the history, and of the candidate's event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.event_lists import lengths_of, require_lengths
from components.datasets.histories.event_ids import ColumnIds, read
from components.datasets.raw_rows import (
    BESIDE,
    CANDIDATE,
    CONTEXT,
    HISTORY,
    NOTHING,
    SEPARATOR,
    TEXT,
    TEXTS,
    USER,
    Encoded,
    RawColumn,
)
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, Vocabulary
from components.feature_spec.catalogue import CATALOGUE, NONE, categories_by_item, read_catalogue
from components.feature_spec.event_columns import MISSING, EventColumn, columns_in
from components.feature_spec.lookup import IdLookup, left_padded
from components.feature_spec.values import read_counts, read_values
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN
from components.workflows.values import DEFAULT_MISSING, texts, written_lists

_COLUMNS = (
    RawColumn("user", TEXT, "the user's id, as in the raw data", USER),
    RawColumn("history", TEXTS, "ids of the items before, oldest first, as in the raw data", HISTORY),
    RawColumn("item", TEXT, "id of the item to score", CANDIDATE),
)
_COLUMN_OF = {Channel.USER: "user", Channel.POSITIVE: "history", Channel.TARGET: "item"}
_ITEM, _CATEGORY = "item", "cat"


class ReviewRows:
    """Encodes columns user, history and item; see ``components.datasets.raw_rows.RawRows``.

    Raises:
        KfrecError: a vocabulary or the catalogue is missing.
    """

    def __init__(self, spec: FeatureSpec, inputs: Collection[str]) -> None:
        # Feature to column, vocabulary and length; None is a single value.
        self._features: dict[str, tuple[str, str, int | None]] = {}
        of_events = {column: {column.sequence, column.field} & set(inputs) for column in columns_in(spec)}
        known = {vocabulary.name: vocabulary for vocabulary in spec.vocabularies}
        self._events = [
            ColumnIds(column, read_values(spec, known[column.field])[1]) for column, used in of_events.items() if used
        ]
        self._inputs, self._length = frozenset(inputs), spec.channel(Channel.POSITIVE)[0].length or 0
        vocabularies: dict[str, Vocabulary] = {}
        for channel, column in _COLUMN_OF.items():
            for feature in spec.channels.get(channel, ()):
                vocabulary = spec.vocabulary_of(feature)
                if feature in inputs and vocabulary is None:
                    raise KfrecError(f"{spec.folder}: no vocabulary of {feature}; train again from the raw files")
                if feature in inputs and vocabulary is not None:
                    self._features[feature] = column, vocabulary.name, spec.features[feature].length
                    vocabularies[vocabulary.name] = vocabulary
        if left := sorted(set(inputs) - set(self._features) - set().union(*of_events.values())):
            raise KfrecError(f"{spec.folder}: the model reads {', '.join(left)}, which no raw column gives")
        self._folder = spec.folder
        item = vocabularies.get(_ITEM)
        self._counts = None if item is None else read_counts(spec, item)
        self._ids = {name: IdLookup(spec, vocabulary) for name, vocabulary in vocabularies.items()}
        if _CATEGORY in vocabularies:
            self._categories = self._category_of_items(spec, item, vocabularies[_CATEGORY])
        used = {column for column, _, _ in self._features.values()}
        self.columns = (
            *(column for column in _COLUMNS if column.name in used),
            *(_beside(each.column) for each in self._events if each.column.sequence in inputs),
            *(_of_target(each.column) for each in self._events if each.column.field in inputs),
        )

    @staticmethod
    def _category_of_items(spec: FeatureSpec, items: Vocabulary | None, categories: Vocabulary) -> np.ndarray:
        found = categories_by_item(spec, items, categories) if items is not None else None
        if found is None:
            raise KfrecError(
                f"{spec.folder / CATALOGUE}: missing, so the categories of items are not known; an earlier kfrec "
                "wrote this model, train it again"
            )
        return found

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        """See ``components.datasets.raw_rows.RawRows``."""
        sizes = [len(values) for values in rows.values()]
        count = max(sizes) if sizes and all(sizes) else 0
        ids: dict[tuple[str, int | None], np.ndarray] = {}
        unknown: dict[str, np.ndarray] = {}
        features = {}
        for feature, (column, vocabulary, length) in self._features.items():
            source = _ITEM if vocabulary == _CATEGORY else vocabulary
            if (column, length) not in ids:
                encode = self._history if column == "history" else self._single
                ids[column, length], unknown[column] = encode(column, rows[column], self._ids[source], length or 0)
            array = ids[column, length]
            values = self._categories[array] if vocabulary == _CATEGORY else array
            features[feature] = np.broadcast_to(values, (count, *values.shape[1:]))
        for feature, (column, array) in self._encoded_events(rows).items():
            features[feature] = np.broadcast_to(array, (count, *array.shape[1:]))
            unknown[column] = np.count_nonzero(array.reshape(len(array), -1) == NVTABULAR_UNKNOWN, 1).astype(np.int32)
        return Encoded(features, {name: np.broadcast_to(lacking, count) for name, lacking in unknown.items()})

    def _encoded_events(self, rows: Mapping[str, pa.Array]) -> dict[str, tuple[str, np.ndarray]]:
        """Feature to the column that it is read from, and its ids."""
        found = {}
        for each in self._events:
            column = each.column
            if column.sequence in self._inputs:
                found[column.sequence] = column.in_history, self._values_beside(each, column.in_history, rows)
            if column.field in self._inputs:
                values = self.texts(column.name, rows[column.name], "a value")
                found[column.field] = column.name, _ids_of(each, column.name, values)
        return found

    def _values_beside(self, ids: ColumnIds, column: str, rows: Mapping[str, pa.Array]) -> np.ndarray:
        """Ids of values beside a history, left-padded; missing ones where a row has none."""
        lists, history = self._lists(column, rows[column]), self._lists("history", rows["history"])
        sizes, items = lengths_of(lists), lengths_of(history)
        require_lengths(items, sizes, column)
        padded = left_padded(_ids_of(ids, column, lists.flatten()), sizes, self._length)
        is_item = np.arange(self._length) >= self._length - items[:, np.newaxis]
        return np.where(is_item & (sizes == 0)[:, np.newaxis], np.int32(MISSING), padded)

    def _single(self, column: str, values: pa.Array, lookup: IdLookup, length: int) -> tuple[np.ndarray, np.ndarray]:
        ids, known = lookup.encode(self.texts(column, values, "an id"))
        return ids, (~known).astype(np.int32)

    def _history(self, column: str, values: pa.Array, lookup: IdLookup, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The newest items, left-padded."""
        lists = self._lists(column, values)
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        ids, known = lookup.encode(lists.flatten())
        padded = left_padded(ids, sizes, length)
        if known.all():
            return padded, np.zeros(len(padded), np.int32)
        return padded, left_padded(~known, sizes, length).sum(1, dtype=np.int32)

    def sampling_counts(self, candidates: pa.Array) -> np.ndarray | None:
        """See ``components.datasets.raw_rows.SampledNegatives``."""
        if self._counts is None:
            return None
        found = self.texts("item", candidates, "an id")
        positions = pc.index_in(found, value_set=self._ids[_ITEM].values, skip_nulls=True)
        known = pc.is_valid(positions).to_numpy(zero_copy_only=False)
        counts = np.zeros(len(candidates))
        counts[known] = self._counts[pc.drop_null(positions).to_numpy()]
        return counts

    def categories(self, candidates: pa.Array) -> np.ndarray | None:
        """See ``components.datasets.raw_rows.Categorized``."""
        catalogue = read_catalogue(self._folder)
        if catalogue is None or _ITEM not in self._ids:
            return None
        ids, known = self._ids[_ITEM].encode(self.texts("item", candidates, "an id"))
        known &= ids < len(catalogue)
        return np.where(known, catalogue[np.where(known, ids, 0)], NONE).astype(np.int64)

    def category_ids(self, categories: pa.Array) -> np.ndarray:
        """See ``components.datasets.raw_rows.NamedCategories``."""
        ids, known = self._ids[_CATEGORY].encode(categories)
        return np.where(known, ids, -1)

    def texts(self, column: str, values: pa.Array, wanted: str) -> pa.Array:
        """A column of ids as text; integers are accepted."""
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        kind = values.type
        if (
            pa.types.is_null(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_integer(kind)
        ):
            return values.cast(pa.large_string())
        raise KfrecError(f"column {column} is of the type {kind}; give {wanted} as text")

    def _lists(self, column: str, values: pa.Array) -> pa.Array:
        """A column of histories as lists of text; text is split."""
        if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
            wanted = f"a list of ids, or ids with {SEPARATOR} between them,"
            text = pc.fill_null(ReviewRows.texts(self, column, values, wanted), "")
            text = pc.if_else(pc.equal(text, NOTHING), "", text)
            if (written := written_lists(text)).any():
                raise KfrecError(
                    f"column {column} has {text[int(np.argmax(written))].as_py()!r}, a list as programs write it; give "
                    f"{wanted} instead"
                )
            split = pc.split_pattern(text, SEPARATOR)
            values = pc.if_else(pc.equal(text, ""), pa.scalar([], split.type), split)
        offsets, leaves = values.offsets, values.values
        if values.null_count:
            lists = pc.if_else(values.is_valid(), values, pa.scalar([], values.type))
            offsets, leaves = lists.offsets, lists.values
        kind = pa.LargeListArray if pa.types.is_large_list(values.type) else pa.ListArray
        return kind.from_arrays(offsets, self.texts(column, leaves, "a list of ids"))

    def example(self) -> dict[str, list[Any]]:
        """See ``components.datasets.raw_rows.RawRows``."""
        items = self._ids[_ITEM].values.slice(0, 4).to_pylist() if _ITEM in self._ids else []
        users = self._ids["uid"].values.slice(0, 2).to_pylist() if "uid" in self._ids else []
        made = {"user": [*users, "", ""][:2], "history": [items, items[:1]], "item": [*items[::-1], "", ""][:2]}
        for each in self._events:
            value = next(iter(each.values), None)
            made |= {
                each.column.in_history: [[value] * len(items), [value] * len(items[:1])],
                each.column.name: [value] * 2,
            }
        return {column.name: made[column.name] for column in self.columns}


def _beside(column: EventColumn) -> RawColumn:
    wanted = "a number" if column.is_number else "one"
    return RawColumn(column.in_history, TEXTS, f"{column.name} of each event of the history, {wanted} or null", BESIDE)


def _of_target(column: EventColumn) -> RawColumn:
    return RawColumn(column.name, TEXT, f"{column.name} of the event to score, or null", CONTEXT)


def _ids_of(ids: ColumnIds, column: str, values: pa.Array) -> np.ndarray:
    found, wrong = read(ids.column, values)
    if wrong.any():
        value = values[int(np.argmax(wrong))].as_py()
        raise KfrecError(f"column {column} has {value!r}, which is no number; give a number, or null")
    return ids.encode(found)


class EventRows(ReviewRows):
    """The same for tables of events, whose ids have one text in columns of all types: 3.0 is 3."""

    def texts(self, column: str, values: pa.Array, wanted: str) -> pa.Array:
        """A column of ids as preprocessing writes them."""
        if pa.types.is_nested(values.type):
            raise KfrecError(f"column {column} is of the type {values.type}; give {wanted} as text")
        return self.spelled(values).cast(pa.large_string())

    def spelled(self, ids: pa.Array) -> pa.Array:
        """See ``components.datasets.raw_rows.SpelledIds``."""
        return texts(ids, DEFAULT_MISSING)
