"""Names to ids: the NVTabular workflow, which is fitted, stored with the samples and reused on new data.

Input and output: uid, item and cat of reviews. Ids start at 3; 0 is padding, 1 null, 2 out of vocabulary.

Runs exchange only the vocabulary, which is plain data: the same reviews give the same bytes, and nothing is unpickled.
A pickled workflow differs at every run, and unpickling one executes arbitrary code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.histories.catalogue import PairCounts, count_pairs
from components.datasets.histories.event_ids import ColumnIds
from components.datasets.histories.filters import Amount
from components.datasets.histories.kinds import KIND
from components.datasets.histories.sorting import HELD_OUT, vocabulary_rows
from components.errors import KfrecError
from components.feature_spec.catalogue import read_catalogue
from components.feature_spec.event_columns import EventColumn
from components.feature_spec.living import seen_file
from components.feature_spec.spec import FILENAME
from components.feature_spec.values import earlier_vocabulary, encoding_ids, encoding_values
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN, VOCABULARY, vocabulary_file
from components.workflows.nvtabular_quiet import ColumnSchema, ColumnSelector, Schema, Workflow, dataframe, ops
from components.workflows.workers import Workers

NAMES = ("uid", "item", "cat")
FIRST_ID = 3
WORKFLOW = "workflow.json"
_NOT_OURS = "kfrec did not write it; workflow must name an earlier output of this step"
_DESCRIPTION = {
    "format": 1,
    "columns": list(NAMES),
    "operators": [{"name": "Categorify", "dtype": "int32", "vocabularies": f"{VOCABULARY}/<column>.parquet"}],
    "ids": {"padding": 0, "null": 1, "out_of_vocabulary": NVTABULAR_UNKNOWN, "first": FIRST_ID},
}
_REVIEWS = Schema([ColumnSchema(name, dtype=str) for name in NAMES])


@dataclass(frozen=True)
class Encoder:
    """A fitted workflow.

    Attributes:
        tables: folder of its tables; must outlive the workflow.
        catalogue: category by item id in the vocabulary's own data; None if fitted on this data.
        folder: of the earlier output whose vocabulary it is; None if fitted on this data.
        columns: values of the columns of events, by ``EventColumn.field``, in the vocabulary's own data.
        rows: id of each id of the workflow, which are consecutive, int32, by name; without names where they are equal.
    """

    workflow: Workflow
    tables: Path
    catalogue: np.ndarray | None = None
    folder: Path | None = None
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)

    def vocabulary(self, name: str) -> tuple[np.ndarray, pa.ChunkedArray]:
        """The ids of users, items or categories, int32, ascending, and their values."""
        values = pq.read_table(_table(self.tables, name), columns=[name])[name].cast(pa.string())
        own = np.arange(FIRST_ID, FIRST_ID + len(values), dtype=np.int32)
        return (self.rows[name][own] if name in self.rows else own), values


def _learned(path: str, before: int | None) -> pd.DataFrame:
    """The names in a file of the schema ``sorting.HISTORY`` that the vocabulary is learned from."""
    return pd.read_parquet(path, columns=list(NAMES), filters=vocabulary_rows(before))


def fit(workers: Workers, histories: Sequence[Path], before: int | None, folder: Path) -> Encoder:
    """Learns the vocabularies of users, items and categories, most frequent first.

    Args:
        before: learn only from reviews before this moment, in nanoseconds since 1970; None learns from all.
    """
    # Workflow.fit would also encode a whole partition to infer types that are known.
    meta = pd.DataFrame({name: [] for name in NAMES}, dtype="object")
    categorify = _categorify(folder)
    statistics = categorify.fit(
        ColumnSelector(NAMES), dataframe.from_map(_learned, [str(path) for path in histories], before=before, meta=meta)
    )
    for _, categories in workers.run([statistics]):
        categorify.fit_finalize(categories)
    for name in NAMES:
        _settle_ties(_table(folder, name), name)
    return Encoder(_workflow(categorify), folder)


def _categorify(folder: Path, **options: Any) -> ops.Categorify:
    return ops.Categorify(out_path=str(folder), dtype=np.int32, **options)


def _workflow(categorify: ops.Categorify) -> Workflow:
    return Workflow(list(NAMES) >> categorify).fit_schema(_REVIEWS)


def _settle_ties(path: Path, name: str) -> None:
    """Sorts equally frequent values alphabetically; NVTabular's order depends on the machine."""
    values = pd.read_parquet(path).sort_values([f"{name}_size", name], ascending=[False, True], ignore_index=True)
    values.index += FIRST_ID
    values.to_parquet(path, compression=None)


def _table(folder: Path, name: str) -> Path:
    return folder / "categories" / f"unique.{name}.parquet"


def encoder_of(vocabularies: Mapping[str, tuple[np.ndarray, pa.Array]], scratch: Path, **about: Any) -> Encoder:
    """The workflow of given vocabularies.

    Args:
        vocabularies: ids, ascending from ``FIRST_ID`` on, and values, by name.
        about: other attributes of the encoder.
    """
    values = {name: each.to_pandas() for name, (_, each) in vocabularies.items()}
    reserved = np.arange(FIRST_ID)
    rows = {name: np.concatenate([reserved, ids]).astype(np.int32) for name, (ids, _) in vocabularies.items()}
    gaps = {name: each for name, each in rows.items() if len(each) != each[-1] + 1}
    return Encoder(_workflow(_categorify(scratch, vocabs=values)), scratch, rows=gaps, **about)


def earlier_encoder(location: str, scratch: Path, columns: Sequence[EventColumn] = ()) -> tuple[Encoder, Path]:
    """The workflow of an earlier output, rebuilt from its vocabulary, and the folder of its vocabulary here.

    Args:
        location: folder or URI of this step's output, or of records or a model with its vocabulary.
        columns: of the events; those that the output lacks are left out.

    Raises:
        KfrecError: the vocabulary is missing, or was not written by this step.
    """
    folder = earlier_vocabulary(location, scratch / "fetched", NAMES, WORKFLOW, FILENAME)
    _check_description(folder / WORKFLOW)
    (scratch / "workflow").mkdir(parents=True)
    there = [column.field for column in columns if (folder / vocabulary_file(column.field)).is_file()]
    values = {name: encoding_values(folder / vocabulary_file(name), FIRST_ID, _NOT_OURS) for name in there}
    return replace(_from_vocabulary(folder, scratch / "workflow"), columns=values, folder=folder), folder


def _check_description(path: Path) -> None:
    """Rejects a vocabulary of another workflow; records and models carry no description."""
    try:
        fits = json.loads(path.read_text()) == _DESCRIPTION
    except FileNotFoundError:
        return
    except ValueError:
        fits = False
    if not fits:
        raise KfrecError(
            f"{path}: describes a workflow that this kfrec does not support; use the kfrec that wrote it, or fit "
            "a new one"
        )


def _from_vocabulary(folder: Path, scratch: Path) -> Encoder:
    """Rebuilds the workflow from the vocabulary of ``write_vocabulary``.

    Args:
        folder: holds vocabulary/<name>.parquet for users, items and categories.

    Raises:
        KfrecError: a file is missing, repeats a value, or has other ids than this step assigns.
    """
    return encoder_of(
        {name: _ids_and_values(folder, name) for name in NAMES}, scratch, catalogue=read_catalogue(folder)
    )


def _ids_and_values(folder: Path, name: str) -> tuple[np.ndarray, pa.Array]:
    """The ids of a vocabulary, ascending, and their values; the ids of one that grows may have gaps.

    Raises:
        KfrecError: as ``_from_vocabulary``.
    """
    path = folder / vocabulary_file(name)
    if not (folder / seen_file(name)).is_file():
        values = encoding_values(path, FIRST_ID, _NOT_OURS)
        return np.arange(FIRST_ID, FIRST_ID + len(values)), values
    ids, values = encoding_ids(path, _NOT_OURS)
    if (np.diff(ids, prepend=FIRST_ID - 1) <= 0).any():
        raise KfrecError(f"{path}: its ids do not ascend from {FIRST_ID}; {_NOT_OURS}")
    return ids, values


def out_of_vocabulary(encoder: Encoder, histories: Sequence[Path]) -> float:
    """Share of the reviews in files of the schema ``sorting.HISTORY`` whose item is out of vocabulary."""
    known = pq.read_table(_table(encoder.tables, "item"), columns=["item"])["item"].combine_chunks()
    reviews = unknown = 0
    for path in histories:
        for batch in pq.ParquetFile(path).iter_batches(columns=["item"]):
            items = batch.column(0).cast(known.type)
            unknown += len(items) - pc.sum(pc.is_in(items, value_set=known)).as_py()
            reviews += len(items)
    return unknown / reviews if reviews else 0.0


@dataclass(frozen=True)
class Unknown:
    """What the vocabulary of a partition lacks.

    Attributes:
        items: hashes of the items, uint64.
    """

    users: int
    events: int
    items: np.ndarray


def amount_of(unknown: Sequence[Unknown]) -> Amount:
    """What the vocabulary of all partitions lacks; the events are those of unknown items."""
    items = np.unique(np.concatenate([each.items for each in unknown]))
    return Amount(sum(each.users for each in unknown), sum(each.events for each in unknown), len(items))


def write_encoded(
    histories: Path,
    workflow: Workflow,
    rows: Mapping[str, np.ndarray],
    columns: Sequence[ColumnIds],
    before: int | None,
    has_weights: bool,
    has_kinds: bool,
    output: Path,
) -> tuple[PairCounts, Unknown]:
    """Encodes one partition and groups the reviews by user; returns the reviews per (item, category) pair.

    Args:
        rows: see ``Encoder``.
        columns: of the events.
        before: count only reviews before this moment, in nanoseconds since 1970; None counts all.
        has_weights: whether a review counts by its weight.
        has_kinds: whether to keep the kinds of the reviews.
        output: parquet file to write, with columns user_key, uid, item_list, cat_list, time_list, flags_list and, of
            reviews with weights or kinds, weight_list and kind_list, and a list of each column of the events, one row a
            user.
    """
    names = pd.read_parquet(histories, columns=list(NAMES))
    ids = workflow.transform(names)
    encoded = {name: ids[name].to_numpy().astype(np.int32, copy=False) for name in NAMES}
    uids, items, cats = (rows[name][own] if name in rows else own for name, own in encoded.items())
    # The category of an item is that of the vocabulary's catalogue: the model has no other when it serves.
    cats = np.where(items == NVTABULAR_UNKNOWN, np.int32(NVTABULAR_UNKNOWN), cats)
    table = pq.read_table(histories, columns=["user_key", "time", "flags", "weight", KIND]).combine_chunks()
    keys, times, flags = (table[name].to_numpy() for name in ("user_key", "time", "flags"))
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    offsets = pa.array(np.r_[starts, len(keys)], pa.int32())
    lists = {
        "user_key": keys[starts],
        "uid": uids[starts],
        "item_list": pa.ListArray.from_arrays(offsets, pa.array(items)),
        "cat_list": pa.ListArray.from_arrays(offsets, pa.array(cats)),
        "time_list": pa.ListArray.from_arrays(offsets, pa.array(times)),
        "flags_list": pa.ListArray.from_arrays(offsets, table["flags"].combine_chunks()),
    }
    if has_weights:
        lists["weight_list"] = pa.ListArray.from_arrays(offsets, table["weight"].combine_chunks())
    if has_kinds:
        lists[f"{KIND}_list"] = pa.ListArray.from_arrays(offsets, table[KIND].combine_chunks())
    for each in columns:
        found = each.encode(pq.read_table(histories, columns=[each.column.field])[0].combine_chunks())
        lists[f"{each.column.field}_list"] = pa.ListArray.from_arrays(offsets, pa.array(found))
    pq.write_table(pa.table(lists), output, compression="lz4")
    counted = flags & HELD_OUT == 0
    if before is not None:
        counted &= times < before
    lacking = items == NVTABULAR_UNKNOWN
    unknown = pd.util.hash_array(names["item"][lacking].unique().astype(object), categorize=False)
    unknown_users = int(np.count_nonzero(uids[starts] == NVTABULAR_UNKNOWN))
    weights = table["weight"].to_numpy()[counted] if has_weights else None
    return count_pairs(items[counted], cats[counted], weights), Unknown(unknown_users, int(lacking.sum()), unknown)


def write_vocabulary(encoder: Encoder, output: Path) -> dict[str, int]:
    """Writes vocabulary/<name>.parquet (id int32, value string) of users, items and categories, and workflow.json.

    Returns the largest id of each column.
    """
    (output / VOCABULARY).mkdir()
    cardinalities = {}
    for name in NAMES:
        ids, values = encoder.vocabulary(name)
        pq.write_table(pa.table({"id": pa.array(ids), "value": values}), output / vocabulary_file(name))
        cardinalities[name] = int(ids.max(initial=FIRST_ID - 1))
    (output / WORKFLOW).write_text(json.dumps(_DESCRIPTION, indent=2) + "\n")
    return cardinalities


def write_item_counts(output: Path, drawn: np.ndarray, reviews: np.ndarray, recent: np.ndarray) -> None:
    """Adds three columns to the vocabulary of items; the first two correct scores for the sampling of negatives.

    Args:
        output: the artifact's folder, with the vocabulary.
        drawn: by item id, column ``count``: occurrences, int64, or their weight, float64, in the distribution that
            negatives are drawn from at the end of the training data.
        reviews: the same of column ``reviews``: reviews that train.
        recent: the same of column ``recent``: those of the last days of training.
    """
    path = output / vocabulary_file("item")
    table = pq.read_table(path)
    ids = table["id"].to_numpy()
    columns = {"count": drawn, "reviews": reviews, "recent": recent}
    counts = {name: pa.array(values[ids]) for name, values in columns.items()}
    pq.write_table(pa.table({name: table[name] for name in table.column_names} | counts), path)
