"""From typed columns to samples: the NVTabular workflow, built from the fitted statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.tabular.conversion import hashes
from components.datasets.tabular.entries import Categorical, Group, Multihot, Numeric
from components.datasets.tabular.fitted import Fitted, FittedNumber, quantiles
from components.datasets.tabular.rows import GROUP, LABEL
from components.datasets.tabular.schema import (
    Source,
    TableSchema,
    bin_name,
    feature_name,
    made_of,
    missing_name,
    quantile_name,
)
from components.datasets.tabular.statistics import Partition, logarithm
from components.feature_spec import Channel, Feature
from components.feature_spec.spec import BOOL, FLOAT
from components.workflows.nvtabular_quiet import ColumnSchema, ColumnSelector, Schema, Workflow, dataframe, ops
from components.workflows.workers import Workers

ROW_GROUP = 32_768
# Categorify reserves 0 for padding, 1 for null and 2 for unknown values; tables map all three to 0.
_RESERVED = 2


def fit_vocabularies(
    workers: Workers, partitions: Sequence[Partition], sources: Sequence[Source], scratch: Path
) -> dict[str, pa.Array]:
    """The vocabularies of the training rows, by column, most frequent value first; ties alphabetical."""
    least = {source.name: source.vocabulary.at_least for source in sources if source.vocabulary}
    if not least:
        return {}
    meta = pd.DataFrame({name: pd.Series([], dtype="object") for name in least})
    categorify = ops.Categorify(out_path=str(scratch), freq_threshold=least)
    counted = categorify.fit(
        ColumnSelector(list(least)), dataframe.from_map(_texts, list(partitions), names=list(least), meta=meta)
    )
    for _, tables in workers.run([counted]):
        categorify.fit_finalize(tables)
    return {name: _vocabulary(Path(categorify.categories[name]), name) for name in least}


def _texts(partition: Partition, names: Sequence[str]) -> pd.DataFrame:
    return partition.train_rows(names).to_pandas()


def _vocabulary(path: Path, name: str) -> pa.Array:
    counted = pd.read_parquet(path) if path.is_file() else pd.DataFrame()
    if f"{name}_size" not in counted:  # a column without any value
        return pa.array([], pa.string())
    counted = counted.sort_values([f"{name}_size", name], ascending=[False, True])
    return pa.array(counted[name], pa.string())


def build_workflow(fitted: Fitted, sources: Sequence[Source], scratch: Path) -> Workflow:
    """The workflow from a frame of ``_frame`` to features.

    Args:
        scratch: folder of the workflow's tables; must outlive it.
    """
    inputs, nodes = [], []
    if fitted.vocabularies:
        values = {name: column.to_pandas() for name, column in fitted.vocabularies.items()}
        nodes.append(list(values) >> ops.Categorify(out_path=str(scratch), dtype=np.int32, vocabs=values))
        lists = {source.name for source in sources if isinstance(source.treatment, Multihot)}
        inputs += [ColumnSchema(name, dtype=str, is_list=name in lists) for name in values]
    for source in sources:
        if isinstance(source.treatment, Numeric):
            number = fitted.numbers[source.name]
            if source.treatment.number:
                nodes += _number(source.name, number)
            if source.treatment.quantile:
                nodes.append([quantile_name(source.name)] >> ops.LambdaOp(partial(quantiles, number.knots)))
            made = made_of(source.name, source.treatment, bool(number.edges))
            if bin_name(source.name) in made:
                nodes.append(_bins(bin_name(source.name), number))
            inputs += [ColumnSchema(name, dtype=np.float64) for name in made]
    # Only hashed columns: the workflow has nothing to do.
    return Workflow(sum(nodes[1:], nodes[0])).fit_schema(Schema(inputs)) if nodes else None


def _number(name: str, number: FittedNumber) -> list[Any]:
    """The number, and a missing indicator if training rows lack it."""
    fill = ops.FillMedian(add_binary_cols=number.indicator)
    fill.medians = {name: number.fill}
    scale = ops.Normalize(out_dtype=np.float32)
    scale.means, scale.stds = {name: number.mean}, {name: number.deviation}
    filled = ([name] >> ops.LambdaOp(logarithm) if number.log else [name]) >> fill
    return [filled[name] >> scale, *([filled[missing_name(name)]] if number.indicator else [])]


def _bins(name: str, number: FittedNumber) -> Any:
    """The id of the number's bin; np.digitize gives 0 below the first boundary, where missing values go."""
    boundaries = [-np.finfo(np.float64).max, *number.edges]
    return [name] >> ops.FillMissing(-np.inf) >> ops.Bucketize({name: boundaries})


def features(fitted: Fitted, schema: TableSchema) -> tuple[dict[str, Feature], dict[str, tuple[str, ...]]]:
    label = Feature(feature_name(schema.label.column), FLOAT if schema.label.number else BOOL)
    by_channel: dict[str, list[Feature]] = {Channel.LABEL: [label]}
    for source in schema.sources:
        for channel, feature in _features_of(source, fitted):
            by_channel.setdefault(channel, []).append(feature)
    channels = {channel: tuple(feature.name for feature in found) for channel, found in by_channel.items()}
    return {feature.name: feature for found in by_channel.values() for feature in found}, channels


def derived_features(fitted: Fitted, schema: TableSchema) -> dict[str, str]:
    """Feature to the column that it is derived from, by feature name, where the two differ."""
    return {
        feature.name: source.name
        for source in schema.sources
        for _, feature in _features_of(source, fitted)
        if feature.name != source.name
    }


def _features_of(source: Source, fitted: Fitted) -> Iterator[tuple[str, Feature]]:
    """Yields the features of a column, each with its channel."""
    treatment = source.treatment
    if isinstance(treatment, Group):
        yield Channel.GROUP, Feature(source.name, "int64")
    elif isinstance(treatment, Numeric):
        number = fitted.numbers[source.name]
        if treatment.number:
            yield Channel.NUMERICAL, Feature(source.name, FLOAT)
            if number.indicator:
                yield Channel.NUMERICAL, Feature(missing_name(source.name), FLOAT)
        if treatment.quantile:
            yield Channel.QUANTILE, Feature(quantile_name(source.name), FLOAT)
        if bin_name(source.name) in made_of(source.name, treatment, bool(number.edges)):
            yield Channel.CATEGORICAL, Feature(bin_name(source.name), "int64", number.bins)
    else:
        cardinality = treatment.buckets or len(fitted.vocabularies[source.name])
        if isinstance(treatment, Multihot):
            yield Channel.MULTIHOT, Feature(source.name, "int64", cardinality, treatment.longest)
        else:
            yield Channel.CATEGORICAL, Feature(source.name, "int64", cardinality)


@dataclass(frozen=True)
class Encoder:
    """Converts partitions to samples.

    Attributes:
        workflow: converts frames to features; None if every column is hashed.
        groups: file with the keys of all groups, int64, ascending; a group's id is its position, from 1.
    """

    schema: TableSchema
    features: Mapping[str, Feature]
    workflow: Workflow | None
    groups: Path

    def write(self, partition: Partition, number: int, output: Path) -> None:
        """Writes <split>/part.<number>.parquet for each split with rows."""
        rows = pq.read_table(partition.path)
        samples = self._samples(rows)
        for split in self.schema.splits:
            part = samples.filter(pa.array(partition.rows_of(split)))
            if len(part):
                path = output / split / f"part.{number}.parquet"
                pq.write_table(part, path, row_group_size=ROW_GROUP, compression="lz4")

    def _samples(self, rows: pa.Table) -> pa.Table:
        made = _frame(rows, self.schema.sources)
        # Categorify takes the type of a column from its first value.
        empty = [name for name in made if made[name].dtype == object and not _has_value(rows[name])]
        for name in empty:
            made[name] = [[""] if pa.types.is_list(rows[name].type) else ""] * len(made)
        if self.workflow is not None:
            made = self.workflow.transform(made)
        columns = {feature_name(self.schema.label.column): rows[LABEL]}
        if self.schema.group:
            keys = np.load(str(self.groups), mmap_mode="r")
            found = hashes(rows[GROUP].combine_chunks()).view(np.int64)
            columns[self.schema.group.name] = pa.array(np.searchsorted(keys, found) + 1)
        for source in self.schema.sources:
            if isinstance(source.treatment, Categorical | Multihot):
                if source.name in empty:
                    columns[source.name] = _without_ids(rows[source.name])
                else:
                    encoded = source.vocabulary is not None
                    columns[source.name] = _ids(pa.array(made[source.name])) if encoded else rows[source.name]
        for name, feature in self.features.items():
            if name not in columns:
                columns[name] = pa.array(made[name].to_numpy(), pa.float32() if feature.is_float else pa.int32())
        return pa.table({name: columns[name] for name in self.features})


def _frame(rows: pa.Table, sources: Sequence[Source]) -> pd.DataFrame:
    """The columns that the workflow reads; a number appears once for each of its features."""
    columns = {}
    for source in sources:
        if source.vocabulary:
            columns[source.name] = rows[source.name]
        elif isinstance(source.treatment, Numeric):
            columns |= dict.fromkeys(made_of(source.name, source.treatment), rows[source.name])
    return pa.table(columns).to_pandas()


def _has_value(column: pa.ChunkedArray) -> bool:
    if pa.types.is_list(column.type):
        column = pc.list_flatten(column)
    return bool(column.null_count < len(column))


def _without_ids(column: pa.ChunkedArray) -> pa.Array:
    """Id 0, or an empty list, for each row."""
    if pa.types.is_list(column.type):
        return pa.array([[]] * len(column), pa.list_(pa.int32()))
    return pa.array(np.zeros(len(column), np.int32))


def _ids(encoded: pa.Array) -> pa.Array:
    """Categorify's ids, or lists of them, without the reserved ones."""
    if pa.types.is_list(encoded.type):
        return pa.ListArray.from_arrays(encoded.offsets, _ids(encoded.values))
    return pa.array(np.maximum(encoded.to_numpy() - _RESERVED, 0).astype(np.int32))
