"""Samples of texts: segments as sequences, their parquet files, and their description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.feature_spec import Feature
from components.text.special import CHANNEL, TOKENS, SpecialTokens
from components.text.vocabulary import INPUT_IDS, NAME, described
from components.text.wordpiece import WordPiece

SEGMENT_IDS = "segment_ids"
CHANNELS: Mapping[str, tuple[str, ...]] = {CHANNEL: (INPUT_IDS, SEGMENT_IDS)}
_ROW_GROUP = 4096


class Sequences(NamedTuple):
    """Sequences of tokens.

    Attributes:
        input_ids: ``[CLS] first [SEP]``, and ``second [SEP]`` where there is a second segment, padded at the end; int32
            ``[n, length]``.
        segment_ids: 1 for the second segment and its [SEP], else 0; int8 ``[n, length]``.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray


def sequences(pairs: Sequence[tuple[list[int], list[int]]], length: int, special: SpecialTokens) -> Sequences:
    """Joins pairs of segments.

    Args:
        pairs: tokens of the first segment, and of the second one, possibly none; they must fit.
    """
    ids = np.full((len(pairs), length), special.pad, np.int32)
    segments = np.zeros((len(pairs), length), np.int8)
    for row, (first, second) in enumerate(pairs):
        joined = [special.cls, *first, special.sep]
        if second:
            joined += [*second, special.sep]
            segments[row, len(first) + 2 : len(joined)] = 1
        ids[row, : len(joined)] = joined
    return Sequences(ids, segments)


def write_lists(path: Path, batches: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Writes batches of columns, values ``[n]`` or lists ``[n, length]``, one row group or more each; at least one."""
    with ExitStack() as stack:
        writer = None
        for columns in batches:
            table = pa.table({name: _array(values) for name, values in columns.items()})
            if writer is None:
                writer = stack.enter_context(
                    pq.ParquetWriter(
                        path, table.schema, compression="lz4", use_dictionary=False, write_statistics=False
                    )
                )
            writer.write_table(table, row_group_size=_ROW_GROUP)


def _array(values: np.ndarray) -> pa.Array:
    flat = pa.array(values.reshape(-1))
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def token_features(tokenizer: WordPiece, length: int) -> list[Feature]:
    return [
        Feature(INPUT_IDS, "int32", len(tokenizer) - 1, length),
        Feature(SEGMENT_IDS, "int8", 1, length),
    ]


def token_metadata(tokenizer: WordPiece) -> dict[str, Any]:
    return {TOKENS: tokenizer.special.to_dict(), "vocabulary": {NAME: described(tokenizer).to_dict()}}
