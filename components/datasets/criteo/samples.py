"""Partitions to samples in parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL, SAMPLE
from components.datasets.criteo.partitions import Span
from components.datasets.criteo.vocabulary import Ids, Lookup

_ROW_GROUP = 65_536


def write_samples(span: Span, lookups: Path, output: Path) -> int:
    """Writes the samples of impressions.

    Args:
        span: the impressions.
        lookups: folder with each column's :class:`Lookup`.
        output: file to write.

    Returns:
        Samples written.
    """
    table = span.read()
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
    positions = pc.fill_null(encoded.indices, len(ids) - 1).to_numpy()
    return pa.array(ids[positions])
