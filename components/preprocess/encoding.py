"""Names to ids: the NVTabular workflow that is fitted, saved with the samples and used again on new data.

In: reviews of the schema ``histories.HISTORY``, whole users in a partition. Out: one row a user with user_key, uid_max
(the user's id), item_list and cat_list (ids, oldest first). Ids start at 3; 1 stands for null, 2 for everything
outside the vocabulary, 0 is left to padding.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dask import dataframe, delayed
from dask.delayed import Delayed

from components.errors import KfrecError
from components.preprocess.nvtabular_quiet import (
    ColumnSchema,
    ColumnSelector,
    Dataset,
    Schema,
    Workflow,
    cudf,
    dispatch,
    ops,
)
from components.preprocess.popularity import PairCounts, count_pairs

NAMES = ("uid", "item", "cat")
FIRST_ID = 3
_REVIEWS = Schema(
    [
        ColumnSchema("user_key", dtype=np.int64),
        ColumnSchema("position", dtype=np.int32),
        *(ColumnSchema(name, dtype=str) for name in NAMES),
    ]
)


def reviews_dataset(files: Sequence[Path]) -> Dataset:
    """A data set with one partition for each file of the schema ``histories.HISTORY``, on the GPU if there is one."""
    library = dispatch.get_lib()
    meta = library.DataFrame({c.name: library.Series([], dtype=_dtype(c.name)) for c in _REVIEWS})
    frame = dataframe.from_map(_read, [str(path) for path in files], meta=meta)
    return Dataset(frame, schema=_REVIEWS, cpu=cudf is None)


def _dtype(column: str) -> str:
    return "object" if column in NAMES else _REVIEWS[column].dtype.to_numpy.name


def _read(path: str) -> Any:
    return dispatch.get_lib().read_parquet(path)


def fit(reviews: Dataset, folder: Path) -> Workflow:
    """Learns the vocabularies of users, items and categories, most frequent first.

    Args:
        reviews: the data set.
        folder: where the workflow keeps its statistics until it is saved.
    """
    ids = list(NAMES) >> ops.Categorify(out_path=str(folder), dtype=np.int32)
    # Fitted before the histories are attached, or a partition of them would be made only to learn their types.
    Workflow(ids).fit(reviews)
    for name in NAMES:
        _settle_ties(_vocabulary_file(folder, name), name)
    return _with_histories(ids)


def _with_histories(ids: Any) -> Workflow:
    """The workflow that gives ids and puts a user's reviews together."""
    histories = (ids + ColumnSelector(["user_key", "position"])) >> ops.Groupby(
        groupby_cols=["user_key"], sort_cols=["position"], aggs={"uid": "max", "item": "list", "cat": "list"}
    )
    return Workflow(histories).fit_schema(_REVIEWS)


def _settle_ties(path: Path, name: str) -> None:
    """Puts equally frequent values in alphabetical order; NVTabular's sort leaves it to the machine."""
    values = pd.read_parquet(path).sort_values([f"{name}_size", name], ascending=[False, True], ignore_index=True)
    values.index += FIRST_ID
    values.to_parquet(path, compression=None)


def _vocabulary_file(folder: Path, name: str) -> Path:
    return folder / "categories" / f"unique.{name}.parquet"


def from_vocabulary(folder: Path, scratch: Path) -> Workflow:
    """The workflow that gives the ids of a vocabulary, as :func:`write_vocabulary` wrote it.

    Args:
        folder: with <name>.parquet for users, items and categories.
        scratch: where the workflow keeps its tables until it is saved.

    Raises:
        KfrecError: a file is missing, or its ids are not those that this step gives.
    """
    vocabularies = {}
    for name in NAMES:
        path = folder / f"{name}.parquet"
        try:
            table = pq.read_table(path, columns=["id", "value"])
        except (FileNotFoundError, pa.ArrowException, KeyError):
            raise KfrecError(
                f"{path}: not a vocabulary; workflow must name an earlier output of this workflow"
            ) from None
        if not np.array_equal(table["id"].to_numpy(), np.arange(FIRST_ID, FIRST_ID + len(table))):
            raise KfrecError(f"{path}: its ids do not count up from {FIRST_ID}; it was written by something else")
        vocabularies[name] = table["value"].to_pandas()
    ids = list(NAMES) >> ops.Categorify(out_path=str(scratch), dtype=np.int32, vocabs=vocabularies)
    return _with_histories(ids)


def out_of_vocabulary(workflow_folder: Path, histories: Sequence[Path]) -> float:
    """Share of the reviews in files of the schema ``histories.HISTORY`` whose item a saved workflow does not know."""
    known = pq.read_table(_vocabulary_file(workflow_folder, "item"), columns=["item"])["item"].combine_chunks()
    reviews = unknown = 0
    for path in histories:
        for batch in pq.ParquetFile(path).iter_batches(columns=["item"]):
            items = batch.column(0).cast(known.type)
            unknown += len(items) - pc.sum(pc.is_in(items, value_set=known)).as_py()
            reviews += len(items)
    return unknown / reviews if reviews else 0.0


def load(folder: Path) -> Workflow:
    """A workflow that an earlier run saved.

    Raises:
        KfrecError: the folder holds none.
    """
    needed = [folder / "workflow.pkl", folder / "metadata.json", *(_vocabulary_file(folder, name) for name in NAMES)]
    for path in needed:
        if not path.is_file():
            raise KfrecError(
                f"{path}: missing; workflow must name the workflow folder of an earlier output of this step"
            )
    try:
        workflow = Workflow.load(folder)
        columns = set(workflow.input_schema.column_names)
    except (pickle.UnpicklingError, EOFError, ImportError, AttributeError, ValueError) as error:
        raise KfrecError(f"{folder}: not a workflow of this step ({error}); name one that it wrote") from None
    if columns != set(_REVIEWS.column_names):
        raise KfrecError(f"{folder}: encodes {sorted(columns)}, not reviews; name a workflow that this step wrote")
    return workflow


def encoding_tasks(workflow: Workflow, reviews: Dataset, outputs: Sequence[Path]) -> list[Delayed]:
    """One task for each partition of ``reviews``, which writes its encoded histories to one of ``outputs``.

    An output has columns user_key, uid, item_list and cat_list, one row a user.

    Returns:
        Tasks whose result is how often each item occurs in the partition (``PairCounts``).
    """
    partitions = workflow.transform(reviews).to_ddf().to_delayed()
    write = delayed(_write_encoded, pure=False)
    return [write(partition, output) for partition, output in zip(partitions, outputs, strict=True)]


def _write_encoded(histories: Any, output: Path) -> PairCounts:
    table = dispatch.to_arrow(histories[["user_key", "uid_max", "item_list", "cat_list"]])
    lists = pa.list_(pa.int32())
    table = table.cast(
        pa.schema([("user_key", pa.int64()), ("uid_max", pa.int32()), ("item_list", lists), ("cat_list", lists)])
    )
    table = table.rename_columns(["user_key", "uid", "item_list", "cat_list"])
    pq.write_table(table, output, compression="lz4")
    items, cats = (pc.list_flatten(table[name]).to_numpy() for name in ("item_list", "cat_list"))
    return count_pairs(items, cats)


def write_vocabulary(workflow_folder: Path, output: Path) -> dict[str, int]:
    """Writes <name>.parquet (id int32, value string) for users, items and categories of a saved workflow.

    Returns:
        The largest id of each.
    """
    output.mkdir()
    cardinalities = {}
    for name in NAMES:
        values = pq.read_table(_vocabulary_file(workflow_folder, name), columns=[name])[name]
        ids = pa.array(np.arange(FIRST_ID, FIRST_ID + len(values)), pa.int32())
        pq.write_table(pa.table({"id": ids, "value": values.cast(pa.string())}), output / f"{name}.parquet")
        cardinalities[name] = FIRST_ID + len(values) - 1
    return cardinalities
