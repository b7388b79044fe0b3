"""Error messages for the defects that the decoder finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from components.errors import KfrecError
from components.feature_spec.spec import FILENAME
from components.records import decoding
from components.records.layout import Layout
from components.records.words import LARGEST

_CONVERT_AGAIN = "run the tfrecord step again, or replace the file"


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
