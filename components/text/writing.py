"""Samples of texts as parquet, and their description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.feature_spec import Feature
from components.text.special import CHANNEL, TOKENS
from components.text.vocabulary import INPUT_IDS, NAME, described
from components.text.wordpiece import WordPiece

SEGMENT_IDS = "segment_ids"
CHANNELS: Mapping[str, tuple[str, ...]] = {CHANNEL: (INPUT_IDS, SEGMENT_IDS)}
_ROW_GROUP = 4096


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
    """The features of the channel of tokens."""
    return [
        Feature(INPUT_IDS, "int32", len(tokenizer) - 1, length),
        Feature(SEGMENT_IDS, "int8", 1, length),
    ]


def token_metadata(tokenizer: WordPiece) -> dict[str, Any]:
    """The metadata sections about the tokens."""
    return {TOKENS: tokenizer.special.to_dict(), "vocabulary": {NAME: described(tokenizer).to_dict()}}
