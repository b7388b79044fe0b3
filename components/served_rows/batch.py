"""Served rows of a batch prediction: one file for a call, there when the call has succeeded."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.served_rows.entries import BATCH, ListedItems, Origin, ScoredRows, Values
from components.served_rows.log import opened
from components.served_rows.schema import SCHEMA, file_of
from components.storage import Retry

_RETRY = Retry(5)


@dataclass
class BatchLog:
    """Takes what a call answers, in order.

    Attributes:
        origin: of all rows; the request is the call.
        rows: rows, or users of lists, so far.
    """

    origin: Origin
    writer: pq.ParquetWriter
    rows: int = 0

    def scored(self, columns: Mapping[str, Values], probabilities: Values | None, user: str, item: str) -> None:
        """Takes scored rows; see ``components.served_rows.entries.ScoredRows``."""
        entry = ScoredRows(self.origin, columns, probabilities, user, item, self.rows)
        self.writer.write_table(entry.table())
        self.rows += entry.rows

    def listed(self, lists: pa.Table, lengths: np.ndarray) -> None:
        """Takes lists, one after the other.

        Args:
            lists: see ``components.scoring.recommend.Recommended``.
            lengths: items of each user's list, ``[users]``.
        """
        owners = self.rows + np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        self.writer.write_table(ListedItems(self.origin, lists, owners.astype(np.int32)).table())
        self.rows += len(lengths)


@contextmanager
def batch_log(location: str, model: str, version: str) -> Iterator[BatchLog | None]:
    """A log for the block, which is written when the block has succeeded; None without a location.

    Raises:
        KfrecError: the location cannot be written to.
    """
    if not location:
        yield None
        return
    store, call, now = opened(location), uuid.uuid4().hex, datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="kfrec-served-") as folder:
        path = Path(folder) / "rows.parquet"
        with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
            yield (log := BatchLog(Origin(call, now, model, version, BATCH), writer))
        if log.rows:
            name = file_of(now, call[:8], 0)
            _RETRY.call(store.url(name), store.write, name, path)
