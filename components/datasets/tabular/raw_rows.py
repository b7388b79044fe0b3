"""Raw rows of tables: the columns of the schema, encoded with the fitted statistics.

NVTabular takes seconds to import, and serving images lack it. So this repeats the workflow's arithmetic in NumPy; a
test compares both on the same rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.artifacts.folder import require_listed
from components.datasets.raw_rows import VALUE, Encoded, RawColumn
from components.datasets.tabular.conversion import ids, lists
from components.datasets.tabular.fitted import SERVED_SCHEMA, Fitted, FittedNumber, quantiles, read_fitted
from components.datasets.tabular.raw_files import read_schema
from components.datasets.tabular.schema import (
    Categorical,
    Group,
    Multihot,
    Numeric,
    Source,
    TableSchema,
    bin_name,
    made_of,
    missing_name,
    quantile_name,
)
from components.datasets.tabular.statistics import logarithm
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.lookup import IdLookup, left_padded
from components.workflows.values import is_deep, numbers, texts, written_lists


class TableRows:
    """Encodes the columns of a table; see ``components.datasets.raw_rows.RawRows``.

    Raises:
        KfrecError: the schema or a fitted file is missing.
    """

    def __init__(self, spec: FeatureSpec, inputs: Collection[str]) -> None:
        self._spec, self._inputs = spec, inputs
        self._schema = _schema(spec.folder)
        self._fitted = _fitted(spec.folder, self._schema)
        self._sources = [source for source in self._schema.sources if _features_of(source) & set(inputs)]
        self._lookups = {
            source.name: IdLookup(spec, vocabulary)
            for source in self._sources
            if source.vocabulary and (vocabulary := spec.vocabulary_of(source.name))
        }
        made = set().union(*(_features_of(source) for source in self._sources))
        if left := sorted(set(inputs) - made):
            raise KfrecError(f"{spec.folder}: the model reads {', '.join(left)}, which no column of the schema gives")
        self.columns = tuple(RawColumn(source.column, VALUE, _help(source.treatment)) for source in self._sources)

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        """See ``components.datasets.raw_rows.RawRows``."""
        count = max((len(values) for values in rows.values()), default=0)
        features: dict[str, np.ndarray] = {}
        unknown: dict[str, np.ndarray] = {}
        for source in self._sources:
            values = rows[source.column]
            one = not isinstance(source.treatment, Multihot)
            if is_deep(values.type) or (one and pa.types.is_nested(values.type)):
                wanted = "one value a row" if one else "a list of texts"
                raise KfrecError(f"column {source.column} is of the type {values.type}; give {wanted}")
            if isinstance(source.treatment, Numeric):
                features |= self._numeric(source, values)
            elif isinstance(source.treatment, Categorical):
                features[source.name], lacking = self._categorical(source, source.treatment, values)
                unknown[source.column] = lacking
            elif isinstance(source.treatment, Multihot):
                features[source.name], lacking = self._multihot(source, source.treatment, values)
                unknown[source.column] = lacking
        with_vocabulary = {source.column for source in self._sources if source.vocabulary}
        return Encoded(
            {
                name: np.broadcast_to(values, (count, *values.shape[1:]))
                for name, values in features.items()
                if name in self._inputs
            },
            {name: np.broadcast_to(lacking, count) for name, lacking in unknown.items() if name in with_vocabulary},
        )

    def _numeric(self, source: Source, column: pa.Array) -> dict[str, np.ndarray]:
        found, wrong = numbers(column, self._schema.missing, self._schema.decimal)
        wrong |= np.abs(np.nan_to_num(found)) > np.finfo(np.float32).max
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise KfrecError(
                f"column {source.column} has {column[row].as_py()!r}, which is not a finite number of float32; correct "
                "it, or leave it empty where it is missing"
            )
        return encode_number(source.name, self._fitted.numbers[source.name], found)

    def _categorical(self, source: Source, treatment: Categorical, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        text, values = ids(column, treatment, self._schema.missing)
        if source.name not in self._lookups:
            return values.to_numpy(), np.zeros(len(values), np.int32)
        found, known = self._lookups[source.name].encode(text)
        return found, (text.is_valid().to_numpy(zero_copy_only=False) & ~known).astype(np.int32)

    def _multihot(self, source: Source, treatment: Multihot, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Lists left-padded with 0, as in records."""
        if not pa.types.is_nested(column.type):
            written = written_lists(whole := texts(column, self._schema.missing))
            if written.any():
                raise KfrecError(
                    f"column {source.column} has {whole[int(np.argmax(written))].as_py()!r}, a list as programs write "
                    f"it; write the values with {treatment.separator} between them, or give a list"
                )
        text, values = lists(column, treatment, self._schema.missing)
        sizes = np.diff(values.offsets.to_numpy()).astype(np.int64)
        found, lacking = values.values.to_numpy(zero_copy_only=False), np.zeros(len(sizes), np.int32)
        if source.name in self._lookups:
            found, known = self._lookups[source.name].encode(text)
            parents = np.repeat(np.arange(len(sizes)), sizes)
            lacking = np.bincount(parents[~known], minlength=len(sizes)).astype(np.int32)
        return left_padded(found, sizes, self._spec.features[source.name].length or treatment.longest), lacking

    def example(self) -> dict[str, list[Any]]:
        """See ``components.datasets.raw_rows.RawRows``."""
        return {source.column: self._example_of(source) for source in self._sources}

    def _example_of(self, source: Source) -> list[Any]:
        if isinstance(source.treatment, Numeric):
            return [self._fitted.numbers[source.name].fill, None]
        first = self._lookups[source.name].values[:1].to_pylist() if source.name in self._lookups else ["a"]
        if isinstance(source.treatment, Multihot):
            return [source.treatment.separator.join(first), None]
        return [*first, None]


def encode_number(name: str, number: FittedNumber, values: np.ndarray) -> dict[str, np.ndarray]:
    """The features of a number, as the workflow of preprocessing makes them.

    Args:
        values: float64, NaN where missing.
    """
    taken = logarithm(values) if number.log else values
    missing = np.isnan(taken)
    filled = np.where(missing, number.fill, taken) - number.mean
    scaled = (filled / number.deviation if number.deviation > 0 else filled).astype(np.float32)
    boundaries = np.array([-np.finfo(np.float64).max, *number.edges])
    bins = np.digitize(np.where(missing, -np.inf, values), boundaries).astype(np.int32)
    return {
        name: scaled,
        missing_name(name): missing.astype(np.float32),
        quantile_name(name): quantiles(number.knots or (0.0,), values).astype(np.float32),
        bin_name(name): bins,
    }


def _features_of(source: Source) -> set[str]:
    """Names of the possible features of a column; none for a group."""
    if isinstance(source.treatment, Group):
        return set()
    if isinstance(source.treatment, Numeric):
        return {*made_of(source.name, source.treatment), missing_name(source.name)}
    return {source.name}


def _help(treatment: Numeric | Categorical | Multihot | Group) -> str:
    if isinstance(treatment, Multihot):
        return f"texts, as a list or with {treatment.separator} between them"
    return "a number, or missing" if isinstance(treatment, Numeric) else "a text or a number, or missing"


def _schema(folder: Path) -> TableSchema:
    path = folder / SERVED_SCHEMA
    require_listed(folder, [SERVED_SCHEMA])
    if not path.is_file():
        raise KfrecError(f"{path}: missing; an earlier kfrec wrote this model, train it again")
    return read_schema(str(path), path.read_text(errors="replace"))


def _fitted(folder: Path, schema: TableSchema) -> Fitted:
    with tempfile.TemporaryDirectory(prefix="kfrec-fitted-") as scratch:
        return read_fitted(str(folder), schema.sources, Path(scratch))
