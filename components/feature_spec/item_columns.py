"""Columns of items, such as price and title, as one vector an item, which a model adds to what it learns of the id.

A column of lists of numbers is a vector as given, one of numbers is a number, any other one a text, whose words are
hashed. Each is centred on the items of the training and scaled to a mean square of 1; a missing value is the mean. A 1
before them is what all items have in common.

The statistics are ``vocabulary/item_columns.json``, the vectors of the known items a column of their vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.values import read_bounded, read_values
from components.feature_spec.vocabulary import VOCABULARY, Vocabulary, vocabulary_file
from components.workflows.values import DEFAULT_MISSING, numbers, texts

ITEM_COLUMNS = f"{VOCABULARY}/item_columns.json"
_VECTOR = "vector"
NUMBER, TEXT, GIVEN = "number", "text", "vector"
# Floats of a text.
_HASHES = 256
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class ItemColumn:
    """A column and its statistics.

    Attributes:
        kind: NUMBER, TEXT or GIVEN.
        mean: of each of its floats.
        scale: what they are divided by.
    """

    name: str
    kind: str
    mean: Sequence[float]
    scale: float

    @staticmethod
    def fitted(name: str, values: pa.Array) -> ItemColumn:
        """The statistics of the values of known items.

        Raises:
            KfrecError: none has a value, or lists are no vectors of one length.
        """
        missing = values.is_null() if _is_list(values) else texts(values, DEFAULT_MISSING).is_null()
        if pc.all(missing).as_py():
            raise KfrecError(f"parameter item_columns: no item has a value of {name!r}; name columns of the items")
        if _is_list(values):
            kind, width = GIVEN, int(pc.list_value_length(values.drop_null())[0].as_py())
        else:
            kind = TEXT if numbers(values, DEFAULT_MISSING)[1].any() else NUMBER
            width = _HASHES if kind == TEXT else 1
        found = ItemColumn(name, kind, [0.0] * width, 1.0)._floats(values)
        found = found[~np.isnan(found[:, 0])].astype(np.float64)
        mean = found.mean(0)
        scale = float(np.sqrt(np.square(found - mean).sum(1).mean()))
        return ItemColumn(name, kind, mean.tolist(), scale or 1.0)

    def encode(self, values: pa.Array) -> np.ndarray:
        """Scaled values, float32 ``[n, width]``.

        Raises:
            KfrecError: a value is of another kind.
        """
        found = (self._floats(values) - np.array(self.mean, np.float32)) / np.float32(self.scale)
        return np.nan_to_num(found, copy=False)

    def _floats(self, values: pa.Array) -> np.ndarray:
        """The floats of values, rows of nan where missing."""
        found = np.full((len(values), len(self.mean)), np.nan, np.float32)
        if self.kind == GIVEN:
            if not _is_list(values):
                raise KfrecError(f"column {self.name} is of the type {values.type}; give each item a list of numbers")
            is_there = values.is_valid().to_numpy(zero_copy_only=False)
            flat, wrong = numbers(values.drop_null().flatten(), ())
            odd = pc.not_equal(pc.list_value_length(values), len(self.mean)).drop_null()
            if wrong.any() or np.isnan(flat).any() or pc.any(odd).as_py():
                raise KfrecError(f"column {self.name}: give each item a list of {len(self.mean)} numbers, or none")
            found[is_there] = flat.reshape(-1, len(self.mean))
        elif _is_list(values):
            raise KfrecError(f"column {self.name} is of the type {values.type}; give each item one {self.kind}")
        elif self.kind == NUMBER:
            found[:, 0], wrong = numbers(values, DEFAULT_MISSING)
            if wrong.any():
                raise KfrecError(
                    f"column {self.name} has {values[int(np.argmax(wrong))].as_py()!r}, which is no number"
                )
        else:
            from sklearn.feature_extraction.text import HashingVectorizer

            said = texts(values, DEFAULT_MISSING)
            is_there = np.flatnonzero(said.is_valid().to_numpy(zero_copy_only=False))
            hashed = HashingVectorizer(n_features=_HASHES, dtype=np.float32)
            for places in np.split(is_there, range(_AT_ONCE, len(is_there), _AT_ONCE)):
                found[places] = hashed.transform(said.take(pa.array(places)).to_pylist()).toarray()
        return found


@dataclass(frozen=True)
class ItemColumns:
    """The columns that make an item's vector."""

    columns: tuple[ItemColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Floats of an item's vector."""
        return 1 + sum(len(column.mean) for column in self.columns)

    def encode(self, values: Mapping[str, pa.Array]) -> np.ndarray:
        """The vectors of items, float32 ``[n, width]``.

        Args:
            values: of each column, ``[n]``.

        Raises:
            KfrecError: a value is of another kind than in training; the message names the column, not the file.
        """
        parts = [column.encode(values[column.name]) for column in self.columns]
        return np.concatenate([np.ones((len(parts[0]), 1), np.float32), *parts], 1)

    def of_none(self, count: int) -> np.ndarray:
        """The vectors of items without a value, float32 ``[count, width]``."""
        return np.eye(1, self.width, dtype=np.float32).repeat(count, 0)


def read_item_columns(folder: Path) -> ItemColumns | None:
    """The columns of an artifact; None if it has none.

    Raises:
        KfrecError: the file is damaged.
    """
    require_listed(folder, [ITEM_COLUMNS])
    path = folder / ITEM_COLUMNS
    try:
        return ItemColumns(tuple(ItemColumn(**each) for each in json.loads(path.read_text())))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise KfrecError(f"{path}: no columns of items ({error}); restore the file") from None


def read_item_vectors(spec: FeatureSpec, items: Vocabulary, width: int) -> np.ndarray:
    """The vector of each id, float32 ``[cardinality + 1, width]``; 0 for an id that stands for no item.

    Raises:
        KfrecError: the vocabulary has none.
    """
    ids, _ = read_values(spec, items)
    vectors = np.zeros(((spec.features[items.features[0]].cardinality or 0) + 1, width), np.float32)
    try:
        found = read_bounded(spec.folder / items.file, [_VECTOR])[_VECTOR].combine_chunks().flatten().to_numpy()
        vectors[ids] = found.reshape(len(ids), width)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise KfrecError(f"{spec.folder / items.file}: no vectors of items ({error}); restore the file") from None
    return vectors


def write_item_vectors(
    items: pa.ChunkedArray, told: Mapping[str, pa.ChunkedArray], folder: Path, earlier: Path | None
) -> None:
    """Writes the statistics of an artifact's items, and adds their vectors to its vocabulary.

    Args:
        items: as in the raw data, text ``[n]``; the first row of an item wins.
        told: what each column has of them, ``[n]``.
        earlier: folder of the vocabulary that is kept, whose statistics are, too; its items that are not among
            ``items`` keep their vectors. None is none.

    Raises:
        KfrecError: an item's value is of another kind than the others', or the earlier columns are other ones.
    """
    path = folder / vocabulary_file("item")
    vocabulary = pq.read_table(path)
    places = pc.index_in(vocabulary["value"].combine_chunks(), value_set=items.combine_chunks())
    values = {name: column.take(places).combine_chunks() for name, column in told.items()}
    columns = read_item_columns(earlier) if earlier else None
    if columns is not None and columns.names != tuple(told):
        raise KfrecError(
            f"parameter item_columns={','.join(told)}: the vocabulary of workflow is of {','.join(columns.names)}; "
            "name these, or leave workflow empty"
        )
    is_kept = columns is not None
    columns = columns or ItemColumns(tuple(ItemColumn.fitted(name, values[name]) for name in told))
    vectors = columns.encode(values)
    if is_kept and earlier is not None:
        before = pq.read_table(earlier / vocabulary_file("item"), columns=["value", _VECTOR])
        known = pc.index_in(vocabulary["value"].combine_chunks(), value_set=before["value"].combine_chunks())
        missing = np.flatnonzero(pc.and_(places.is_null(), known.is_valid()).to_numpy(zero_copy_only=False))
        of_items = before[_VECTOR].combine_chunks().flatten().to_numpy().reshape(-1, columns.width)
        vectors[missing] = of_items[known.take(pa.array(missing)).to_numpy()]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), columns.width)
    pq.write_table(vocabulary.append_column(_VECTOR, column), path)
    (folder / ITEM_COLUMNS).write_text(json.dumps([asdict(each) for each in columns.columns]) + "\n")


def _is_list(values: pa.Array) -> bool:
    return bool(pa.types.is_list(values.type) or pa.types.is_large_list(values.type))
