"""Writes samples as parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.datasets.outbrain.displays import Joined
from components.datasets.outbrain.features import BUCKETS, GROUP, LABEL, LISTS, NUMBERS
from components.workflows.columns import data_frame
from components.workflows.nvtabular_quiet import Workflow, dispatch

_ROW_GROUP = 1 << 16
_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))
SAMPLE = pa.schema(
    [
        pa.field(LABEL, pa.int8(), nullable=False),
        pa.field(GROUP, pa.int64(), nullable=False),
        *(pa.field(name, pa.int32(), nullable=False) for name in BUCKETS),
        *(pa.field(name, _LIST, nullable=False) for name in LISTS.values()),
        *(pa.field(name, pa.float32(), nullable=False) for name in NUMBERS),
    ]
)


def write_samples(joined: Joined, workflow: Workflow, part: str, output: Path) -> None:
    """Writes train/<part> and test/<part> of one partition, each unless it would be empty.

    Args:
        joined: the partition.
        workflow: converts joined clicks to samples.
        part: file name.
        output: folder with the folders train and test.
    """
    clicks = pa.ipc.open_file(pa.memory_map(str(joined.path))).read_all()
    samples = dispatch.to_arrow(workflow.transform(data_frame(clicks)))
    table = samples.select(SAMPLE.names).combine_chunks().cast(SAMPLE)
    for split, rows in (("train", table.slice(0, joined.train)), ("test", table.slice(joined.train))):
        if rows.num_rows:
            options = dict(compression="lz4", use_dictionary=False, write_statistics=False)
            pq.write_table(rows, output / split / part, row_group_size=_ROW_GROUP, **options)
