"""Partitions to samples in parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL, SAMPLE
from components.datasets.criteo.partitions import Partition
from components.datasets.criteo.vocabulary import Ids, Lookup

_ROW_GROUP = 65_536


def write_samples(partition: Partition, begin: int, end: int, lookups: Path, output: Path) -> int:
    """Writes the samples of a partition's impressions, rows ``begin`` to ``end`` of their raw file.

    Args:
        partition: the impressions.
        begin, end: rows of the raw file.
        lookups: folder with each column's :class:`Lookup`.
        output: file to write.

    Returns:
        Samples written.
    """
    table = partition.read(begin, end)
    columns = [table[name] for name in (LABEL, *NUMERICAL)]
    columns += [_encoded(table[name].combine_chunks(), Lookup(lookups, name).read()) for name in CATEGORICAL]
    samples = pa.table([column.cast(field.type) for column, field in zip(columns, SAMPLE, strict=True)], schema=SAMPLE)
    pq.write_table(
        samples, output, row_group_size=_ROW_GROUP, compression="lz4", use_dictionary=False, write_statistics=False
    )
    return samples.num_rows


def _encoded(values: pa.Array, known: Ids) -> pa.Array:
    """Ids; each distinct value is looked up once."""
    encoded = values.dictionary_encode()
    ids = np.append(known.find(encoded.dictionary.to_numpy()), np.int32(0))
    places = pc.fill_null(encoded.indices, len(ids) - 1).to_numpy()
    return pa.array(ids[places])
