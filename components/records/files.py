"""One record file: the offsets of its samples, and how to read a range of them, and messages for its defects."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.native.compiled import kernel
from components.records import decoding
from components.records.decoding import ABSENT, MISSING, decode, example
from components.records.framing import FOOTER, HEADER, index_path, load_index, read_range
from components.records.layout import Layout, layout_of
from components.records.words import LARGEST

_WINDOW = 32 << 20
_CONVERT_AGAIN = "run the tfrecord step again, or replace the file"


@dataclass(frozen=True)
class RecordFile:
    """A file of framed records.

    Attributes:
        offsets: int64 [records + 1], frame offsets, and the size of the file; None if this process does not read it.
        first_rows: int64 [records + 1], the number of samples before each record; None where a record is a sample.
    """

    path: Path
    records: int
    offsets: np.ndarray | None
    first_rows: np.ndarray | None

    @property
    def rows(self) -> int:
        """Samples in the file."""
        return int(self.first_rows[-1]) if self.first_rows is not None else self.records

    def record_rows(self, begin: int, end: int) -> np.ndarray:
        """Samples in each of the records [begin, end)."""
        if self.first_rows is None:
            return np.ones(end - begin, np.int64)
        return np.diff(self.first_rows[begin : end + 1])

    def decode(self, layout: Layout, begin: int, end: int, out: np.ndarray, starts: np.ndarray, row: int) -> None:
        """Decodes whole records to the flat ``out``, the first sample to ``row``; see ``decoding.decode``.

        Raises:
            KfrecError: the file is gone or corrupt, or a record breaks the specification.
        """
        assert self.offsets is not None, f"{self.path} was not to be read"
        offsets = np.array(self.offsets[begin : end + 1])
        samples = self.record_rows(begin, end)
        try:
            with self.path.open("rb", buffering=0) as file:
                data = read_range(file.fileno(), self.path, int(offsets[0]), int(offsets[-1] - offsets[0]))
        except FileNotFoundError:
            raise KfrecError(f"{self.path}: missing; run the tfrecord step again, or restore the file") from None
        problem = np.zeros(5, np.int64)
        found, follows = np.empty(len(layout.features), np.int64), np.zeros(len(layout.features) + 1, np.int64)
        if not decode(data, offsets, samples, layout.fields, out, starts, row, found, follows, problem):
            raise explain(self.path, begin, layout, problem)


def open_files(spec: FeatureSpec, split: str, wanted: Container[int] | None = None) -> list[RecordFile]:
    """The record files of a split, with their offsets; foreign files without metadata are scanned once.

    Args:
        split: "train", "test" or "validation".
        wanted: indices of the files to read; None is all. Foreign files are always wanted.

    Raises:
        KfrecError: a file is missing, damaged or no part of the artifact, or its number of samples differs from
            feature_spec.yaml.
    """
    paths = spec.files(split)
    named = spec.sources[split].files
    require_listed(spec.folder, [*named, *(str(index_path(Path(name))) for name in named)])
    rows = rows_per_file(spec, split)
    if rows is None:
        return [_foreign(spec, split, path) for path in paths]
    prebatch = spec.prebatch_size(split)
    return [
        _known(path, count, prebatch, wanted is None or number in wanted)
        for number, (path, count) in enumerate(zip(paths, rows, strict=True))
    ]


def rows_per_file(spec: FeatureSpec, split: str) -> list[int] | None:
    """Samples of each file of a split, or None where feature_spec.yaml does not say.

    Raises:
        KfrecError: it counts another number of files than it lists.
    """
    rows = spec.metadata.get(split, {}).get("rows_per_file")
    paths = spec.files(split)
    if rows is not None and len(rows) != len(paths):
        raise KfrecError(
            f"{spec.folder / FILENAME}: metadata of split {split} counts the rows of {len(rows)} files, but "
            f"{len(paths)} are listed; run the tfrecord step again, or remove rows_per_file"
        )
    return None if rows is None else [int(count) for count in rows]


def _known(path: Path, rows: int, prebatch: int, wanted: bool) -> RecordFile:
    records = -(-rows // prebatch) if prebatch else rows
    offsets = load_index(path) if wanted else None
    if offsets is not None and len(offsets) - 1 != records:
        raise KfrecError(
            f"{path}: holds {len(offsets) - 1} records, {FILENAME} says {records}; run the tfrecord step again"
        )
    first_rows = np.minimum(np.arange(records + 1, dtype=np.int64) * prebatch, rows) if prebatch else None
    return RecordFile(path, records, offsets, first_rows)


def _foreign(spec: FeatureSpec, split: str, path: Path) -> RecordFile:
    offsets = load_index(path)
    features = [spec.features[name] for name in spec.sources[split].features]
    counted = min(features, key=lambda feature: feature.length or 0)  # a single-valued feature counts best
    samples = count_samples(path, offsets, layout_of(spec, [counted.name]))
    records = len(offsets) - 1
    if (samples == 1).all():
        return RecordFile(path, records, offsets, None)
    return RecordFile(path, records, offsets, np.concatenate(([0], np.cumsum(samples))))


@kernel
def _count_values(data, offsets, fields, scratch, start, found, follows, counts, problem):  # type: ignore[no-untyped-def]
    """Counts the values of the one feature of ``fields`` in each frame of ``data``; returns whether all have it."""
    keys, key_ends, heads, room, _, limits, floats, _ = fields
    for record in range(len(counts)):
        problem[1] = record
        begin = offsets[record] - offsets[0] + HEADER
        end = offsets[record + 1] - offsets[0] - FOOTER
        found[0] = ABSENT
        problem[0] = example(
            data, begin, end, 1, keys, key_ends, heads, room, limits, floats, scratch, start, 0, found, follows, problem
        )
        if problem[0] == 0 and found[0] == ABSENT:
            problem[0] = MISSING
        if problem[0] != 0:
            return False
        counts[record] = found[0]
    return True


def count_samples(path: Path, offsets: np.ndarray, layout: Layout) -> np.ndarray:
    """Samples in each record of a file, int64 [records], by reading it once.

    Args:
        offsets: its index, see ``framing.load_index``.

    Raises:
        KfrecError: a record is not an Example or lacks the feature.
    """
    counts = np.empty(len(offsets) - 1, np.int64)
    if not len(counts):
        return counts
    room = np.array([int(np.diff(offsets).max())])  # a value takes at least one byte
    fields = layout.fields._replace(lengths=room, limits=np.full(1, 2**63 - 1))  # values are checked when decoded
    scratch = np.empty(int(room[0]), np.int32)
    start, found, follows = np.zeros(1, np.int64), np.empty(1, np.int64), np.zeros(2, np.int64)
    problem = np.zeros(5, np.int64)
    with path.open("rb", buffering=0) as file:
        begin = 0
        while begin < len(counts):
            end = max(int(np.searchsorted(offsets, offsets[begin] + _WINDOW, side="right")) - 1, begin + 1)
            part = np.array(offsets[begin : end + 1])
            data = read_range(file.fileno(), path, int(part[0]), int(part[-1] - part[0]))
            if not _count_values(data, part, fields, scratch, start, found, follows, counts[begin:end], problem):
                raise explain(path, begin, layout, problem)
            begin = end
    return np.maximum(counts // int(layout.fields.lengths[0]), 1)


def explain(path: Path, first_record: int, layout: Layout, problem: np.ndarray) -> KfrecError:
    """The error for a ``problem`` of ``decoding.decode``.

    Args:
        first_record: index of the first decoded record.
        problem: int64 [5]: kind, record, feature, value, count.
    """
    kind, record, index, value, count = (int(number) for number in problem)
    feature = layout.features[index]
    where = f"{path}: record {first_record + record}"
    if kind == decoding.FRAME:
        return KfrecError(f"{where}: no TFRecord frame where one should begin; {_CONVERT_AGAIN}")
    if kind == decoding.CHECKSUM:
        return KfrecError(f"{where}: checksum does not match, the file is corrupt; {_CONVERT_AGAIN}")
    if kind == decoding.NOT_AN_EXAMPLE:
        return KfrecError(f"{where}: not a tf.train.Example; {_CONVERT_AGAIN}")
    if kind == decoding.MISSING:
        return KfrecError(
            f"{where}: has no feature {feature.name}; write it, or take it out of feature_spec and channel_spec in "
            f"{FILENAME}"
        )
    if kind == decoding.OTHER_TYPE:
        wanted = "a float list" if feature.is_float else "an int64 list"
        return KfrecError(
            f"{where}: feature {feature.name} is not {wanted}; write it as one, or correct its dtype in {FILENAME}"
        )
    if kind == decoding.TOO_LONG:
        return KfrecError(
            f"{where}: feature {feature.name} has more than {feature.length or 1} values; correct its dimensions in "
            f"{FILENAME}, or shorten the lists"
        )
    if kind == decoding.WRONG_COUNT:
        return KfrecError(
            f"{where}: feature {feature.name} does not have {feature.length or 1} values for each of the record's "
            f"samples; correct its dimensions or prebatch_size in {FILENAME}"
        )
    if kind == decoding.UNEQUAL:
        other = layout.features[count].name
        return KfrecError(
            f"{where}: feature {feature.name} has another number of values ({value}) than {other}, whose history it is "
            f"part of; write lists of one length"
        )
    return KfrecError(f"{where}: feature {feature.name} has {_outside(layout, index, value, count)}")


def _outside(layout: Layout, index: int, value: int, count: int) -> str:
    feature = layout.features[index]
    if feature.is_float:
        return f"{count} {_plural(count, 'value')} that are not finite; correct the records"
    limit = int(layout.fields.limits[index])
    first = "beyond 32 bits" if value == LARGEST else str(value)
    if value < 0:
        return f"{count} {_plural(count, 'value')} below 0; ids start at 1, and 0 is padding: encode them again"
    if feature.cardinality is None or feature.cardinality != limit:
        return f"{count} {_plural(count, 'value')} above {limit}, the first is {first}; correct the records"
    return (
        f"{count} {_plural(count, 'id')} above the cardinality {limit} in {FILENAME}, the first is {first}; "
        f"correct the cardinality, or encode the data again"
    )


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else noun + "s"
