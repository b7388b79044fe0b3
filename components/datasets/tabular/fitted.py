"""Plain data fitted on the training rows: vocabularies and the statistics of numbers.

Runs exchange only this: the same rows give the same bytes, and nothing is unpickled. It is stored in the folder
vocabulary/, which is copied to records and models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.contract import PIECES
from components.datasets.tabular.entries import Numeric
from components.datasets.tabular.schema import Source
from components.datasets.tabular.statistics import NumberStatistics, logarithm
from components.errors import KfrecError
from components.feature_spec.values import earlier_vocabulary, encoding_values
from components.feature_spec.vocabulary import VOCABULARY, vocabulary_file

NUMBERS = f"{VOCABULARY}/numbers.json"
# The schema, for records and models, which carry this folder only.
SERVED_SCHEMA = f"{VOCABULARY}/schema.yaml"
_FORMAT = 2
# A column with at most as many distinct values has a bin for each, unless the schema states its bins.
_FEW = 256
_REMEDY = "give an earlier output of this data set, or leave the parameter workflow empty"


@dataclass(frozen=True)
class FittedNumber:
    """How a number becomes features.

    Attributes:
        log: whether the logarithm of the number is taken first.
        deviation: divisor; 0 maps a constant to 0.
        indicator: whether a missing indicator is a feature.
        edges: ascending, of the values themselves, since the last bits of logarithms differ by processor; values from
            edge i on belong to bin i + 2 or a later one. Empty without bins.
        knots: ascending; values whose quantiles are 0 to 1 in equal steps. Empty without the quantile.
    """

    log: bool
    fill: float
    mean: float
    deviation: float
    indicator: bool
    edges: tuple[float, ...]
    knots: tuple[float, ...]

    @property
    def bins(self) -> int:
        """The largest id of its bins."""
        return len(self.edges) + 1


@dataclass(frozen=True)
class Fitted:
    """A fitted workflow.

    Attributes:
        vocabularies: feature to its values, id 1 first.
    """

    vocabularies: Mapping[str, pa.Array]
    numbers: Mapping[str, FittedNumber]


def fit_number(treatment: Numeric, statistics: NumberStatistics) -> FittedNumber:
    """From the statistics of the training rows; a column without any value is all zeros."""
    sample = statistics.sample
    median = np.array(np.median(sample) if len(sample) else 0.0)
    standard = treatment.scale == "standard"
    bins = treatment.bins if treatment.bins is not None else _FEW * (len(np.unique(sample)) <= _FEW)
    return FittedNumber(
        treatment.log,
        float(logarithm(median) if treatment.log else median) if treatment.fill == "median" else statistics.mean,
        statistics.mean if standard else 0.0,
        statistics.deviation if standard else 1.0,
        statistics.missing > 0,
        bin_edges(sample, bins) if bins else (),
        quantile_knots(sample) if treatment.quantile else (),
    )


def bin_edges(sample: np.ndarray, bins: int) -> tuple[float, ...]:
    """The lower edges of the second and later bins.

    A value that fills a bin, such as the zeros of a count, gets its own; the others share the remaining bins equally.
    With no more distinct values than bins, each gets its own.

    Args:
        bins: number of bins; heavy values may add a few.
    """
    distinct, counts = np.unique(sample, return_counts=True)
    if len(distinct) <= bins:
        return tuple(distinct[1:].tolist())
    heavy = counts * bins >= len(sample)
    rest = np.repeat(distinct[~heavy], counts[~heavy])
    left = max(bins - int(heavy.sum()), 1)
    quantiles = np.quantile(rest, np.arange(1, left) / left, method="lower") if len(rest) else rest
    edges = np.unique(np.concatenate([quantiles, distinct[heavy], distinct[1:][heavy[:-1]]]))
    return tuple(edges[edges > distinct[0]].tolist())


def quantile_knots(sample: np.ndarray) -> tuple[float, ...]:
    """The ends and the edges of the sample's bins; 0 where there is no value."""
    ends = (sample.min(), sample.max()) if len(sample) else (0.0,)
    return tuple(np.unique([*ends, *bin_edges(sample, PIECES)]).tolist())


def quantiles(knots: Sequence[float], values: np.ndarray) -> np.ndarray:
    """The quantiles of values, float64 from 0 to 1, interpolated between the knots; 0.5 where missing.

    Args:
        knots: ascending; with a single one, all quantiles are 0.
        values: float64, NaN where missing.
    """
    found = np.interp(values, knots, np.linspace(0, 1, len(knots)))
    return np.where(np.isnan(values), 0.5, found)


def write_fitted(fitted: Fitted, sources: Sequence[Source], folder: Path) -> dict[str, Any]:
    """Writes vocabulary/<feature>.parquet (id int32, value string) and vocabulary/numbers.json.

    Returns:
        ``statistics``: a digest of the statistics of all numbers; ``columns``: one of each. Models whose digests of
        their common columns differ cannot be compared on the same data.
    """
    (folder / VOCABULARY).mkdir()
    for name, values in fitted.vocabularies.items():
        ids = pa.array(np.arange(1, len(values) + 1), pa.int32())
        pq.write_table(pa.table({"id": ids, "value": values}), folder / vocabulary_file(name))
    numbers = {name: asdict(number) for name, number in fitted.numbers.items()}
    body = {"format": _FORMAT, "sources": _described(sources), "numbers": numbers}
    (folder / NUMBERS).write_text(json.dumps(body, indent=2) + "\n")
    return {"statistics": _digest(numbers), "columns": {name: _digest(number) for name, number in numbers.items()}}


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


def _described(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The columns and their treatment, as JSON values."""
    return [{"name": source.name, "column": source.column, **asdict(source.treatment)} for source in sources]


def read_fitted(place: str, sources: Sequence[Source], scratch: Path) -> Fitted:
    """Reads the statistics of an earlier run; columns that it had not are left out.

    Args:
        place: folder or URI of this step's output, or of records or a model with its vocabulary.
        sources: the columns, and their treatment in the schema.

    Raises:
        KfrecError: there are none, or a column has another treatment now.
    """
    folder = earlier_vocabulary(place, scratch / "fetched", (), NUMBERS)
    path = folder / NUMBERS
    try:
        body = json.loads(path.read_text())
        if body["format"] != _FORMAT:
            raise ValueError
        numbers = {
            name: FittedNumber(**{**entry, **{part: tuple(entry[part]) for part in ("edges", "knots")}})
            for name, entry in body["numbers"].items()
        }
        fitted_for = {entry["name"]: entry for entry in body["sources"]}
    except FileNotFoundError:
        raise KfrecError(f"{path}: missing, so no data set tabular wrote this vocabulary; {_REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KfrecError(f"{path}: not what this kfrec writes; {_REMEDY}") from None
    known = [source for source in _described(sources) if source["name"] in fitted_for]
    if odd := next((source["name"] for source in known if fitted_for[source["name"]] != source), ""):
        raise KfrecError(
            f"{path}: was fitted for another schema ({odd} differs); use that schema, or fit a new one, with which no "
            "earlier model can go on (keep_vocabulary=false and warm_start=false where a retraining chooses)"
        )
    names = {source["name"] for source in known}
    named = [source.name for source in sources if source.vocabulary and source.name in names]
    require_listed(folder, map(vocabulary_file, named))
    return Fitted(
        {name: encoding_values(folder / vocabulary_file(name), 1, _REMEDY) for name in named},
        {name: number for name, number in numbers.items() if name in names},
    )
