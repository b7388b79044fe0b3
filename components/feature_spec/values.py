"""The values of a vocabulary's ids, from its file; a small file whose content is large in memory is refused first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.artifacts.remote import local_copy
from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.vocabulary import VOCABULARY, Vocabulary, vocabulary_file

# What distinct values may take for each byte of a file: repeated values, and zeros, compress much better.
_BYTES, _ROWS = 100, 16
_FREE = 64 << 20
# Reviews of the newest ones that all reviews together weigh as much as.
_SMOOTHING = 10_000.0


def read_bounded(path: Path, columns: list[str]) -> pa.Table:
    """Columns of a file of distinct values; text is read by its dictionary, and expanded only if it is short enough.

    Raises:
        KfrecError: the columns would take far more memory than the file has bytes.
        OSError, pyarrow.ArrowException, KeyError: as of pyarrow.parquet.read_table.
    """
    size = path.stat().st_size
    with pq.ParquetFile(path) as file:
        texts = [field.name for field in file.schema_arrow if field.name in columns and _is_text(field.type)]
        if lacking := [name for name in columns if name not in file.schema_arrow.names]:
            raise KeyError(f"no column {lacking[0]}")
        metadata = file.metadata
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        declared = sum(group.column(place).total_uncompressed_size for group in groups
                       for place in range(metadata.num_columns))  # fmt: skip
        _require(path, declared, size, f"{declared:,} bytes")
        _require(path, metadata.num_rows, size, f"{metadata.num_rows:,} rows", _ROWS, _FREE // 8)
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read(columns)
    expanded = {}
    for name in columns:
        column = table[name]
        if name in texts:
            long = sum(_expanded(chunk) for chunk in column.chunks)
            _require(path, long, size, f"{long:,} bytes of {name}")
            column = pa.chunked_array([_decoded(chunk) for chunk in column.chunks], pa.large_string())
        expanded[name] = column
    return pa.table(expanded)


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _expanded(chunk: pa.Array) -> int:
    """Bytes of a chunk's texts."""
    if not pa.types.is_dictionary(chunk.type):
        return chunk.nbytes
    lengths = pc.fill_null(pc.binary_length(chunk.dictionary), 0).to_numpy(zero_copy_only=False)
    indices = chunk.indices.drop_null().to_numpy()
    return int(lengths.astype(np.int64)[indices].sum()) if len(lengths) else 0


def _decoded(chunk: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary.cast(pa.large_string()).take(chunk.indices)
    return chunk.cast(pa.large_string())


def _require(path: Path, found: int, size: int, what: str, per_byte: int = _BYTES, free: int = _FREE) -> None:
    if found > per_byte * size + free:
        raise KfrecError(f"{path}: has {size:,} bytes and would take {what} in memory, which no vocabulary does")


def read_values(spec: FeatureSpec, vocabulary: Vocabulary) -> tuple[np.ndarray, pa.Array]:
    """The ids of a vocabulary, and their values.

    Raises:
        KfrecError: the file is missing or no vocabulary.
    """
    require_listed(spec.folder, [vocabulary.file])
    path = spec.folder / vocabulary.file
    try:
        table = read_bounded(path, ["id", "value"])
    except FileNotFoundError:
        raise KfrecError(f"{path}: missing, though feature_spec.yaml names it; ids cannot be matched") from None
    except (pa.ArrowException, KeyError) as error:
        raise KfrecError(f"{path}: not a vocabulary with columns id and value ({str(error).splitlines()[0]})") from None
    return table["id"].to_numpy(), table["value"].cast(pa.large_string()).combine_chunks()


def read_counts(spec: FeatureSpec, vocabulary: Vocabulary) -> np.ndarray | None:
    """How often the distribution of negatives holds each value, at the end of the training data.

    A model trained against sampled negatives scores log p(value) - log q(value) + constant; these counts, divided by
    their sum, are q. The column ``count``, of the newest reviews, is sparse where few were written; it is smoothed by
    the column ``reviews``, of all reviews that trained, which weighs as much as 10,000 of the newest ones.

    Returns:
        float64, in the order of ``read_values``, 0 for values that never trained; None if the vocabulary has no
        counts.

    Raises:
        KfrecError: the file is missing or damaged.
    """
    require_listed(spec.folder, [vocabulary.file])
    path = spec.folder / vocabulary.file
    try:
        if "count" not in pq.read_schema(path).names:
            return None
        table = read_bounded(path, ["count", "reviews"])
    except (OSError, pa.ArrowException, KeyError) as error:
        raise KfrecError(
            f"{path}: has no columns count and reviews ({str(error).splitlines()[0]}); restore it"
        ) from None
    recent, trained = (table[name].to_numpy().astype(np.float64) for name in ("count", "reviews"))
    return recent + _SMOOTHING * trained / max(trained.sum(), 1.0)


def read_recent(spec: FeatureSpec, feature: str) -> np.ndarray | None:
    """How often the last days of training have each value of a feature, by the column ``recent`` of its vocabulary.

    Returns:
        float64 ``[cardinality + 1]``, by id; None without a vocabulary or the column.

    Raises:
        KfrecError: the file is missing or damaged.
    """
    vocabulary = spec.vocabulary_of(feature)
    if vocabulary is None:
        return None
    ids, _ = read_values(spec, vocabulary)
    path = spec.folder / vocabulary.file
    if "recent" not in pq.read_schema(path).names:
        return None
    counts = np.zeros((spec.features[feature].cardinality or 0) + 1)
    counts[ids] = read_bounded(path, ["recent"])["recent"].to_numpy()
    return counts


def read_trained(spec: FeatureSpec, vocabulary: Vocabulary) -> np.ndarray:
    """How often the training data have the value of each id, by the column ``reviews``.

    Returns:
        float64, by id; 0 for an id without a value, and 1 for the others of a vocabulary without counts.

    Raises:
        KfrecError: the file is missing or damaged.
    """
    ids, _ = read_values(spec, vocabulary)
    path = spec.folder / vocabulary.file
    has_counts = "reviews" in pq.read_schema(path).names
    counts = np.zeros(max(int(ids.max(initial=0)), vocabulary.unknown) + 1)
    counts[ids] = read_bounded(path, ["reviews"])["reviews"].to_numpy() if has_counts else 1
    return counts


def names_of(spec: FeatureSpec, feature: str, ids: np.ndarray) -> dict[int, str]:
    """The values of some ids of a feature; empty where it has no vocabulary. Ids that it lacks are left out.

    Raises:
        KfrecError: the vocabulary's file is missing or damaged.
    """
    vocabulary = spec.vocabulary_of(feature)
    if vocabulary is None:
        return {}
    known, values = read_values(spec, vocabulary)
    positions = np.flatnonzero(np.isin(known, ids))
    return dict(zip(known[positions].tolist(), values.take(pa.array(positions)).to_pylist(), strict=True))


def earlier_vocabulary(location: str, scratch: Path, names: Iterable[str], *others: str) -> Path:
    """The folder of an earlier output with its vocabulary, to encode new data with.

    Args:
        location: folder or URI of a preprocess step's output, or of records or a model with its vocabulary.

    Raises:
        KfrecError: there is no vocabulary, or a file is no part of the artifact.
    """
    folder = local_copy(location, scratch, VOCABULARY, *others)
    if not (folder / VOCABULARY).is_dir():
        raise KfrecError(
            f"{location}: no {VOCABULARY} here; workflow must name an earlier output of this step, or records or a "
            "model that carry its vocabulary"
        )
    require_listed(folder, [*others, *map(vocabulary_file, names)])
    return folder


def _texts(values: pa.ChunkedArray) -> pa.Array:
    return values.cast(pa.string()).combine_chunks()


def encoding_values(
    path: Path, first: int, remedy: str, read: Callable[[pa.ChunkedArray], pa.Array] = _texts
) -> pa.Array:
    """The values of a vocabulary in the order of their ids, to encode new data with.

    Args:
        remedy: for an invalid file, for messages.
        read: converts the texts of the file; as they are by default.

    Raises:
        KfrecError: the file is missing, its ids do not run from ``first``, or a value is missing or duplicated.
    """
    ids, values = encoding_ids(path, remedy, read)
    if not np.array_equal(ids, np.arange(first, first + len(ids))):
        raise KfrecError(f"{path}: its ids are not consecutive from {first}; {remedy}")
    return values


def encoding_ids(
    path: Path, remedy: str, read: Callable[[pa.ChunkedArray], pa.Array] = _texts
) -> tuple[np.ndarray, pa.Array]:
    """The ids of a vocabulary, as they are in its file, and their values; as ``encoding_values``."""
    try:
        table = read_bounded(path, ["id", "value"])
        values = read(table["value"])
    except (FileNotFoundError, pa.ArrowException, KeyError):
        raise KfrecError(f"{path}: missing or not a vocabulary; {remedy}") from None
    if values.null_count or pc.count_distinct(values).as_py() != len(values):
        raise KfrecError(f"{path}: a value is missing or duplicated; {remedy}")
    return table["id"].to_numpy(), values
