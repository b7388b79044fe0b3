"""Scores a file of raw rows into another one, batch by batch."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.contract import PROBABILITY
from components.datasets.raw_rows import CANDIDATE, USER
from components.errors import KfrecError, explain_os_error
from components.inference.formats import RowsFile, rows_file, writing
from components.private import open_own
from components.progress import progress
from components.records import prefetched
from components.scoring import RawModel, Scored
from components.scoring.model import as_column
from components.scoring.raw import UNKNOWN
from components.scoring.split import READ_AHEAD, behind
from components.served_rows.batch import BatchLog


@dataclass
class Counts:
    """Counts of scored rows.

    Attributes:
        seconds: scoring time, without loading the model.
    """

    rows: int = 0
    with_unknown: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, scored: Scored) -> None:
        self.rows += scored.rows
        self.with_unknown += int(np.count_nonzero(scored.unknown_ids))
        self.unknown.update({column: int(lacking.sum()) for column, lacking in scored.unknown.items()})

    def merge(self, other: Counts) -> None:
        """Adds the counts of another file."""
        self.rows += other.rows
        self.with_unknown += other.with_unknown
        self.seconds += other.seconds
        self.unknown.update(other.unknown)

    @property
    def summary(self) -> str:
        """The counts in a sentence."""
        rate = f", {self.rows / self.seconds:,.0f} rows/s" if self.seconds else ""
        counts = ", ".join(f"{count:,} of {column}" for column, count in self.unknown.items() if count)
        lacking = (
            f"; {self.with_unknown:,} rows have ids that the model has never seen ({counts})"
            if counts
            else "; the model knows all ids"
        )
        return f"{self.rows:,} rows{rate}{lacking if self.unknown else ''}"


def score_file(
    model: RawModel,
    source: RowsFile,
    target: Path,
    named: RowsFile,
    batch_size: int,
    title: str,
    log: BatchLog | None = None,
) -> Counts:
    """Writes the rows of a file with the model's output columns appended.

    Args:
        log: takes the rows, too.

    Raises:
        KfrecError: the rows do not fit the model, or the file is damaged.
    """
    counts, started = Counts(), time.perf_counter()
    user, item = (column.name if (column := model.column_of(role)) else "" for role in (USER, CANDIDATE))

    def begin(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Callable[[], Scored]]:
        _require_free(source, batch.schema.names, model.outputs)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return batch, _named(source, partial(model.begin, columns))

    with writing(target, named) as writer, progress(title, source.rows, "rows") as bar:
        for batch, scores in behind(map(begin, prefetched(source.batches(batch_size), READ_AHEAD))):
            scored = _named(source, scores)
            outputs = {name: as_column(values) for name, values in scored.outputs.items()}
            outputs[UNKNOWN] = pa.array(scored.unknown_ids)
            names = [*batch.schema.names, *outputs]
            writer.write(pa.RecordBatch.from_arrays([*batch.columns, *outputs.values()], names=names))
            if log is not None:
                read = {column.name: batch[column.name] for column in model.columns}
                log.scored(read, outputs.get(PROBABILITY), user, item)
            counts.add(scored)
            bar.advance(len(batch))
        if not counts.rows:
            raise KfrecError(f"{source.path}: no rows in it; give a file with rows to score")
    counts.seconds = time.perf_counter() - started
    return counts


def _named(source: RowsFile, job: Callable[[], Any]) -> Any:
    """Calls ``job`` and names the file in its errors."""
    try:
        return job()
    except KfrecError as error:
        raise KfrecError(f"{source.path}: {error}") from None


def _require_free(source: RowsFile, names: list[str], outputs: tuple[str, ...]) -> None:
    for name in outputs:
        if name in names:
            raise KfrecError(
                f"{source.path}: already has a column {name}, which the scores would replace; rename or drop it"
            )


@contextmanager
def replacing(output: Path, inputs: list[Path], outputs: tuple[str, ...]) -> Iterator[Path]:
    """Yields a hidden file beside ``output``, renamed to it if the block succeeds.

    Args:
        output: a new file, or one from an earlier call, with ``outputs`` as its last columns; links are followed.
        inputs: files that it must not replace.

    Raises:
        KfrecError: the output is something else, or is being written by another process.
    """
    require_ours(output, inputs, outputs)
    real = output.resolve()
    hidden = real.with_name(f".{real.name}.kfrec.partial")
    try:
        with os.fdopen(open_own(hidden, 0o666), "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise KfrecError(f"{output}: another process is writing it; wait for it or stop it") from None
            try:
                os.truncate(hidden, 0)
                yield hidden
                require_ours(output, inputs, outputs)
                hidden.replace(real)
            finally:
                hidden.unlink(missing_ok=True)
    except OSError as error:
        of_hidden = error.filename in (None, str(hidden))
        explained = explain_os_error(OSError(error.errno, error.strerror) if of_hidden else error, output)
        raise explained or error from error


def require_ours(output: Path, inputs: list[Path], outputs: tuple[str, ...]) -> None:
    """Checks that a file may be written; see ``replacing``.

    Raises:
        KfrecError: it may not.
    """
    if not str(output).strip() or output == Path():
        raise KfrecError("--output is empty; name a file (is a shell variable unset?)")
    named = rows_file(output)
    try:
        for read in inputs:
            if output.exists() and read.exists() and output.samefile(read):
                raise KfrecError(f"{output}: is the input; name another file for the output")
        if not output.parent.is_dir():
            raise KfrecError(f"{output}: there is no folder {output.parent}; make it first")
        if not os.path.lexists(output):
            return
        if not output.is_file():
            raise KfrecError(f"{output}: is not a file; name another one for the output")
    except (OSError, RuntimeError) as error:
        explained = explain_os_error(error, output) if isinstance(error, OSError) else None
        raise explained or KfrecError(f"{output}: its symbolic links form a loop; choose another file") from None
    try:
        first = next(named.batches(1), None)
    except KfrecError:
        first = None
    if first is None or tuple(first.schema.names[-len(outputs) :]) != outputs:
        raise KfrecError(f"{output}: exists and holds no scores of kfrec, so it is not overwritten; name another file")
