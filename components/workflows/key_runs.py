"""Rows sorted by a 64-bit key on disk, so that a partition can be read without ever holding all rows.

Rows arrive in any order. They are collected into runs of a quarter of a million, each sorted by its key and written to
one Arrow file while the next is collected. A partition is a range of keys: every sorted run holds its share as one
slice. Keys are hashes, spread evenly over 64 bits; so partitions are of about equal size, and rows of one key are
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

RUN_ROWS = 1 << 18


@dataclass(frozen=True)
class KeyRange:
    """The rows of one partition: those whose key is in [first, last], read from all runs."""

    schema: pa.Schema
    runs: tuple[Path, ...]
    first: int
    last: int

    def read(self) -> pa.Table:
        """Its rows as a table of the schema, the key first, in no particular order."""
        slices = [self.schema.empty_table()]
        for path in self.runs:
            run = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            keys = run.column(0).chunk(0).to_numpy()
            start = np.searchsorted(keys, self.first, side="left")
            stop = np.searchsorted(keys, self.last, side="right")
            slices.append(run.slice(start, stop - start))
        return pa.concat_tables(slices)


class KeyRuns:
    """Writes runs; a context manager that waits for pending writes.

    Args:
        name: key column, and prefix of the files.
        schema: schema of the rows, without the key.
        keys: returns the keys of a table's rows, int64.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        schema: pa.Schema,
        keys: Callable[[pa.Table], np.ndarray],
    ) -> None:
        self._folder, self._name, self._keys = folder, name, keys
        self._schema = schema.insert(0, pa.field(name, pa.int64()))
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._runs: list[Path] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._writing: Future[None] | None = None
        self.rows = 0  # Taken so far.

    def __enter__(self) -> KeyRuns:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.shutdown()

    def add(self, rows: pa.Table) -> None:
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_rows >= RUN_ROWS:
            self._end_run()

    def partitions(self, count: int) -> list[KeyRange]:
        """Finishes writing and divides all keys into ``count`` ranges."""
        self._end_run()
        self._wait()
        bounds = [-(2**63) + index * 2**64 // count for index in range(count + 1)]
        return [KeyRange(self._schema, tuple(self._runs), bounds[i], bounds[i + 1] - 1) for i in range(count)]

    def partitions_of(self, rows: int) -> list[KeyRange]:
        """As ``partitions``, into ranges of about ``rows`` rows."""
        return self.partitions(max(1, math.ceil(self.rows / rows)))

    def _end_run(self) -> None:
        if not self._pending_rows:
            return
        self._wait()  # Back-pressure: otherwise runs would pile up in memory on a slow disk.
        self._runs.append(self._folder / f"{self._name}-{len(self._runs)}.arrow")
        self._writing = self._writer.submit(self._write_run, self._pending, self._runs[-1])
        self._pending, self._pending_rows = [], 0

    def _write_run(self, tables: Sequence[pa.Table], path: Path) -> None:
        rows = pa.concat_tables(tables).combine_chunks()
        keys = self._keys(rows)
        order = np.argsort(keys)
        run = rows.take(pa.array(order)).combine_chunks()
        with pa.ipc.new_file(path, self._schema) as writer:
            writer.write_table(run.add_column(0, self._schema[0], pa.array(keys[order])))

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
