"""From the columns of a table to labels, numbers, texts and hashed ids; malformed rows are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.tabular.entries import Categorical, Label, Multihot
from components.workflows.quarantine import Refusals
from components.workflows.values import is_among, numbers, texts

# Digits with a decimal comma, separators of thousands, or the sign of a percentage or of money.
_MARKED = r"^[+-]?\s*[$€£¥]?\s*[+-]?(\d{1,3}([,.' ]\d{3})+|\d*)([.,]\d+)?\s*[%$€£¥]?$"


def labels(
    column: pa.Array, label: Label, missing: Sequence[str], decimal: str, refusals: Refusals
) -> tuple[pa.Array, np.ndarray]:
    """The labels, int8, or float32 if they are numbers.

    Args:
        missing: texts that stand for a missing value.
        refusals: collect rows whose label is missing, no number, or neither 0 nor 1.

    Returns:
        labels: 0 where missing.
        dropped: bool, mask of unlabelled rows that the schema drops.
    """
    absent = pc.is_null(texts(column, missing)).to_numpy(zero_copy_only=False)
    if label.missing == "refuse":
        refusals.add(absent, label.column, "no label (label: missing: drop leaves such rows out)")
    if label.number:
        found, wrong = numbers(column, missing, decimal)
        narrow = np.nan_to_num(found).astype(np.float32)
        refusals.add(wrong | np.isinf(narrow), label.column, "not a number that float32 holds")
        return pa.array(narrow), absent
    if label.positive:
        return pa.array(is_among(column, label.positive, missing, decimal).astype(np.int8)), absent
    if label.comparisons:
        found, wrong = numbers(column, missing, decimal)
        refusals.add(wrong, label.column, "not a number")
        positive = found > label.above if label.above is not None else found < label.below
        return pa.array(positive.astype(np.int8)), absent
    positive = is_among(column, (1,), missing, decimal) | is_among(column, ("true",), missing)
    negative = is_among(column, (0,), missing, decimal) | is_among(column, ("false",), missing)
    refusals.add(
        ~(positive | negative | absent), label.column, "not 0 or 1; state above, below, equals or in under label"
    )
    return pa.array(positive.astype(np.int8)), absent


def number(column: pa.Array, name: str, missing: Sequence[str], decimal: str, refusals: Refusals) -> pa.Array:
    """A column of numbers, NaN where missing."""
    found, wrong = numbers(column, missing, decimal)
    if wrong.any():
        marked = pc.fill_null(pc.match_substring_regex(texts(column, missing), _MARKED), False)
        remedy = f"write it as 1234{decimal}5" + (", or state decimal: ',' in the schema" if decimal == "." else "")
        what = "a number with separators, or a sign such as % or $"
        refusals.add(wrong & marked.to_numpy(zero_copy_only=False), name, f"{what}; {remedy}")
    refusals.add(wrong, name, "not a finite number (list it under missing, or make the column categorical)")
    beyond = np.abs(np.nan_to_num(found)) > np.finfo(np.float32).max
    refusals.add(beyond, name, "a number that float32 does not hold")
    return pa.array(found)


def ids(column: pa.Array, treatment: Categorical, missing: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """A categorical column: the text of every value, and its text or hashed id for encoding."""
    text = texts(column, missing)
    return text, hashed(text, treatment.buckets) if treatment.buckets else text


def lists(column: pa.Array, treatment: Multihot, missing: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """A multi-hot column: the text of every value, and lists of text or hashed ids for encoding.

    Drops missing values within a list, and values beyond the maximum length.
    """
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        column = pc.split_pattern(texts(column, missing), treatment.separator)
    leaves = texts(column.flatten(), missing)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    valid = pc.is_valid(leaves).to_numpy(zero_copy_only=False)
    parents = np.repeat(np.arange(len(column)), lengths)
    before = np.r_[0, np.cumsum(valid)]
    starts = np.r_[0, np.cumsum(lengths)][:-1]
    kept = valid & (before[:-1] - before[starts][parents] < treatment.longest)
    offsets = np.r_[0, np.cumsum(np.bincount(parents[kept], minlength=len(column)))].astype(np.int32)
    text = leaves.filter(pa.array(kept))
    values = hashed(text, treatment.buckets) if treatment.buckets else text
    return text, pa.ListArray.from_arrays(pa.array(offsets), values)


def hashed(text: pa.Array, buckets: int) -> pa.Array:
    """Ids 1..buckets, int32; 0 for null."""
    is_known = pc.is_valid(text).to_numpy(zero_copy_only=False)
    return pa.array(np.where(is_known, 1 + hashes(text) % np.uint64(buckets), 0).astype(np.int32))


def hashes(text: pa.Array) -> np.ndarray:
    """64-bit hashes, uint64: the same on every machine, and the same for a number in CSV and in parquet."""
    return pd.util.hash_array(pc.fill_null(text, "").to_numpy(zero_copy_only=False))
