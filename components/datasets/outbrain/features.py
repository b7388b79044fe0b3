"""The features of a sample, and the NVTabular workflow that computes them from joined clicks.

The 13 numbers, the categorical features and the lists are those of NVIDIA's public Wide & Deep example, with its bucket
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from components.datasets.outbrain.documents import LISTED, load_vectors, similarities
from components.datasets.outbrain.ids import to_buckets
from components.datasets.outbrain.raw_files import TERMS
from components.datasets.outbrain.statistics import AGES, COUNTED, RATED, Fitted, load_counts, rates
from components.feature_spec import Channel, Feature, FeatureSpec
from components.workflows.nvtabular_quiet import ColumnSchema, ColumnSelector, Schema, Workflow, list_column, ops

LABEL, GROUP = "clicked", "display_id"
# Hash buckets as published.
BUCKETS = {
    "document_id": 300_000,
    "ad_id": 250_000,
    "document_id_promo": 100_000,
    "campaign_id": 5_000,
    "source_id": 4_000,
    "source_id_promo": 4_000,
    "geo_location": 2_500,
    "geo_location_state": 2_000,
    "geo_location_country": 300,
    "advertiser_id": 2_500,
    "publisher_id": 1_000,
    "publisher_id_promo": 1_000,
    "platform": 4,
}
LIST_BUCKETS = {"topics": 350, "entities": 10_000, "categories": 100}
LISTS = {"topics": "topic_id_list", "entities": "entity_id_list", "categories": "category_id_list"}
_RATES, _SHOWS = [f"{name}_ctr" for name in RATED], [f"{name}_count" for name in COUNTED]
_SIMILARITIES = [f"{kind}_similarity" for kind in TERMS]
NUMBERS = (*_RATES, *_SHOWS, *AGES, *_SIMILARITIES)
_VIEWED, _PROMOTED, _FOLD = "document_row", "document_promo_row", "fold"
_JOINED = Schema(
    [
        *(ColumnSchema(name, dtype=np.int64) for name in (LABEL, GROUP, _FOLD, _VIEWED, _PROMOTED, *BUCKETS)),
        *(ColumnSchema(name, dtype=np.float64) for name in AGES),
    ]
)


def bucket_numbers(published: Mapping[str, int], largest: int) -> dict[str, int]:
    """The published bucket counts, capped at ``largest``."""
    return {name: min(number, largest) for name, number in published.items()}


def specification(largest_buckets: int, encoding: Mapping[str, Any]) -> FeatureSpec:
    numbers = bucket_numbers(BUCKETS, largest_buckets)
    list_numbers = bucket_numbers(LIST_BUCKETS, largest_buckets)
    features = [
        Feature(LABEL, "bool"),
        Feature(GROUP, "int64"),
        *(Feature(name, "int64", number) for name, number in numbers.items()),
        *(Feature(LISTS[kind], "int64", list_numbers[kind], LISTED) for kind in LISTS),
        *(Feature(name, "float32") for name in NUMBERS),
    ]
    channels = {
        Channel.LABEL: (LABEL,),
        Channel.GROUP: (GROUP,),
        Channel.CATEGORICAL: tuple(BUCKETS),
        Channel.MULTIHOT: tuple(LISTS.values()),
        Channel.NUMERICAL: NUMBERS,
    }
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels, {"encoding": dict(encoding)})


def samples_workflow(fitted: Fitted, counts: Path, documents: Path, largest_buckets: int) -> Workflow:
    """Joined clicks to samples."""
    folds = fitted.division.folds
    plain = ColumnSelector([LABEL, GROUP])
    buckets = bucket_numbers(BUCKETS, largest_buckets)
    ids = list(BUCKETS) >> Computed(partial(_buckets, buckets), BUCKETS, np.int32)
    rated = [*RATED, _FOLD] >> Computed(partial(_rates, counts, folds), _RATES, np.float32)
    shows = Computed(partial(_shows, counts, folds), _SHOWS, np.int64)
    shown = list(COUNTED) >> shows >> ops.LogOp() >> _standardised(fitted)
    ages = [[name] >> ops.FillMissing(fitted.medians[name]) >> ops.LogOp() for name in AGES]
    similar = [_VIEWED, _PROMOTED] >> Computed(partial(_similarities, documents), _SIMILARITIES, np.float32)
    lists = [_VIEWED] >> Computed(partial(_terms, documents), LISTS.values(), np.int32, dims=(None, LISTED))
    return Workflow(plain + ids + lists + rated + shown + ages[0] + ages[1] + similar).fit_schema(_JOINED)


def _standardised(fitted: Fitted) -> ops.Normalize:
    normalize = ops.Normalize(out_dtype=np.float32)
    normalize.means = {f"{name}_count": fitted.means[name] for name in COUNTED}
    normalize.stds = {f"{name}_count": fitted.deviations[name] for name in COUNTED}
    return normalize


class Computed(ops.Operator):
    """Columns computed by a function of other columns.

    NVTabular's HashBucket hashes missing values, too. Its TargetEncoding draws folds per partition and row, so the ads
    of one display fall into several folds; and it has no threshold.

    Args:
        compute: takes a data frame and returns the columns by name; sent to workers.
    """

    def __init__(
        self, compute: Callable[[pd.DataFrame], dict[str, Any]], names: Iterable[str], dtype: type, **properties: Any
    ) -> None:
        super().__init__()
        self.compute = compute
        self.columns = [ColumnSchema(name, dtype=dtype, **properties) for name in names]

    def transform(self, col_selector: Any, df: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self.compute(df))

    def compute_output_schema(self, input_schema: Any, col_selector: Any, prev_output_schema: Any = None) -> Schema:
        return Schema(self.columns)


def _buckets(numbers: Mapping[str, int], df: pd.DataFrame) -> dict[str, Any]:
    """Hashes each column's raw ids into buckets from 1 on, 0 for a missing id."""
    return {name: to_buckets(df[name].values, number) for name, number in numbers.items()}


def _rates(counts: Path, folds: int, df: pd.DataFrame) -> dict[str, Any]:
    """Clicks per show of the ad and its groups, excluding the row's fold, from the fitted files."""
    columns, fold = {}, df[_FOLD].values
    for name, threshold in RATED.items():
        positions, shown, clicked = load_counts(counts, name, folds)
        columns[f"{name}_ctr"] = rates(shown, clicked, threshold, positions.of(df[name].values), fold)
    return columns


def _shows(counts: Path, folds: int, df: pd.DataFrame) -> dict[str, Any]:
    """Shows of the ad and its document among training samples, 0 if never; from the fitted files."""
    columns = {}
    for name in COUNTED:
        positions, shown, _ = load_counts(counts, name, folds)
        total = np.append(shown[:, folds], np.zeros(1, shown.dtype))  # index -1, an unknown id, reads the trailing 0
        columns[f"{name}_count"] = total[positions.of(df[name].values)]
    return columns


def _similarities(documents: Path, df: pd.DataFrame) -> dict[str, Any]:
    """Similarities of the viewed and the promoted document, by kind of term."""
    viewed, promoted = df[_VIEWED].values, df[_PROMOTED].values
    return {f"{kind}_similarity": similarities(load_vectors(documents, kind), viewed, promoted) for kind in TERMS}


def _terms(documents: Path, df: pd.DataFrame) -> dict[str, Any]:
    """Lists of the buckets of the viewed document's first terms of each kind, right-padded with 0."""
    columns, positions = {}, df[_VIEWED].values
    for kind, name in LISTS.items():
        listed = load_vectors(documents, kind).listed
        known = np.where(positions < 0, 0, positions)
        rows = (
            np.where((positions < 0)[:, None], 0, listed[known]) if len(listed) else np.zeros((len(positions), LISTED))
        )
        columns[name] = list_column(rows.astype(np.int32))
    return columns
