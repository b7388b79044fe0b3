"""Names to ids: the NVTabular workflow that is fitted, saved with the samples and used again on new data.

In and out: uid, item and cat of reviews. Ids start at 3; 1 stands for null, 2 for everything outside the vocabulary, 0
is left to padding.
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
from dask import dataframe

from components.artifacts.remote import fetch_artifact
from components.errors import KfrecError
from components.preprocess.nvtabular_quiet import (
    ColumnSchema,
    ColumnSelector,
    Schema,
    Workflow,
    dispatch,
    ops,
)
from components.preprocess.popularity import PairCounts, count_pairs
from components.preprocess.workers import Workers
from components.storage import is_uri

NAMES = ("uid", "item", "cat")
FIRST_ID = 3
VOCABULARY = "vocabulary"
_REVIEWS = Schema([ColumnSchema(name, dtype=str) for name in NAMES])


def _read(path: str) -> Any:
    """The names in a file of the schema ``histories.HISTORY``, on the GPU if there is one."""
    return dispatch.get_lib().read_parquet(path, columns=list(NAMES))


def fit(workers: Workers, histories: Sequence[Path], folder: Path) -> Workflow:
    """Learns the vocabularies of users, items and categories, most frequent first.

    Args:
        workers: run the tasks.
        histories: files of the schema ``histories.HISTORY``.
        folder: where the workflow keeps its statistics until it is saved.
    """
    # Workflow.fit would encode a whole partition besides, only to learn the types, which are known.
    library = dispatch.get_lib()
    meta = library.DataFrame({name: library.Series([], dtype="object") for name in NAMES})
    categorify = _categorify(folder)
    statistics = categorify.fit(
        ColumnSelector(NAMES), dataframe.from_map(_read, [str(path) for path in histories], meta=meta)
    )
    for _, categories in workers.run([statistics]):
        categorify.fit_finalize(categories)
    for name in NAMES:
        _settle_ties(_vocabulary_file(folder, name), name)
    return _workflow(categorify)


def _categorify(folder: Path, **options: Any) -> ops.Categorify:
    return ops.Categorify(out_path=str(folder), dtype=np.int32, **options)


def _workflow(categorify: ops.Categorify) -> Workflow:
    return Workflow(list(NAMES) >> categorify).fit_schema(_REVIEWS)


def _settle_ties(path: Path, name: str) -> None:
    """Puts equally frequent values in alphabetical order; NVTabular's sort leaves it to the machine."""
    values = pd.read_parquet(path).sort_values([f"{name}_size", name], ascending=[False, True], ignore_index=True)
    values.index += FIRST_ID
    values.to_parquet(path, compression=None)


def _vocabulary_file(folder: Path, name: str) -> Path:
    return folder / "categories" / f"unique.{name}.parquet"


def earlier_workflow(place: str, scratch: Path) -> Workflow:
    """The workflow of an earlier output.

    Args:
        place: its workflow folder, or folder or URI of an artifact that carries the vocabulary.
        scratch: folder for what has to be fetched or made.

    Raises:
        KfrecError: there is neither.
    """
    folder = Path(place)
    if is_uri(place):
        folder = scratch / "fetched"
        fetch_artifact(place, folder, lambda path: path.startswith(f"{VOCABULARY}/"))
    if (folder / VOCABULARY).is_dir():
        (scratch / "workflow").mkdir(parents=True)
        return _from_vocabulary(folder / VOCABULARY, scratch / "workflow")
    return _load(folder)


def _from_vocabulary(folder: Path, scratch: Path) -> Workflow:
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
    return _workflow(_categorify(scratch, vocabs=vocabularies))


def _load(folder: Path) -> Workflow:
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


def write_encoded(histories: Path, workflow: Workflow, output: Path) -> PairCounts:
    """Encodes one partition and puts each user's reviews together.

    Args:
        histories: file of the schema ``histories.HISTORY``.
        workflow: gives the ids.
        output: parquet file to write, with columns user_key, uid, item_list and cat_list, one row a user.

    Returns:
        How often each item occurs.
    """
    ids = dispatch.to_arrow(workflow.transform(_read(str(histories))))
    uids, items, cats = (ids[name].to_numpy().astype(np.int32, copy=False) for name in NAMES)
    keys = pq.read_table(histories, columns=["user_key"])["user_key"].to_numpy()
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    offsets = pa.array(np.r_[starts, len(keys)], pa.int32())
    columns = {
        "user_key": keys[starts],
        "uid": uids[starts],
        "item_list": pa.ListArray.from_arrays(offsets, pa.array(items)),
        "cat_list": pa.ListArray.from_arrays(offsets, pa.array(cats)),
    }
    pq.write_table(pa.table(columns), output, compression="lz4")
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
