"""What a model of a table is compared with: click rates of the values of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from components.feature_spec import Channel, Feature, FeatureSpec
from components.metrics import roc_auc
from components.tasks.controls import BASELINE, Samples

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

BEST_COLUMN = "best_column"
_CHANNELS = (Channel.USER, Channel.TARGET, Channel.CATEGORICAL, Channel.MULTIHOT, Channel.NUMERICAL, Channel.QUANTILE)
# Samples at the overall rate that are added to those of each value: a rare value says little.
_SMOOTHING = 10.0
_BINS = 32  # of a number
# The AUC of a column alone, and its interval's lower end, from which the column may be the label in other words.
_TELLS, _SURELY = 0.999, 0.95
# Numbers in memory that the regression is fitted on; more columns are fitted on fewer samples.
_MOST_NUMBERS = 20_000_000


class ColumnBaselines:
    """The baselines of data without histories.

    A value of a column has smoothed log-odds of a click, by the samples of the first part of the training split:

        ln((clicks + 10 r) / (views - clicks + 10 (1 - r))) - ln(r / (1 - r)), r being the rate of all samples

    Numbers are cut into 32 bins of about equally many samples. A list has the mean of its ids, and a value that did not
    occur has 0.

    - best_column: these log-odds of one column, the one that ranks the second part of the training samples best;
    - baseline: a logistic regression on the log-odds of all columns, fitted on the second part.

    Args:
        features: to read, at least one.
    """

    def __init__(self, spec: FeatureSpec, features: Iterable[Feature]) -> None:
        self._label = spec.targets[0].name
        self._columns = [_Column(feature) for feature in features]
        self._regression: Pipeline | None = None
        self._best = 0

    @property
    def features(self) -> tuple[str, ...]:
        return (self._label, *(column.name for column in self._columns))

    @property
    def about(self) -> Mapping[str, str]:
        return {BEST_COLUMN: self._columns[self._best].name} if self._regression else {}

    def fit(self, first: Iterable[Samples], second: Iterable[Samples]) -> None:
        for samples in first:
            for column in self._columns:
                column.count(samples, samples[self._label] > 0)
        parts, labels, most = [], [], _MOST_NUMBERS // len(self._columns)
        for samples in second:
            if most > 0:
                parts.append(self._log_odds(samples)[:most])
                labels.append(samples[self._label][:most] > 0)
                most -= len(labels[-1])
        clicked = np.concatenate([np.zeros(0, bool), *labels])
        if clicked.any() and not clicked.all():
            log_odds = np.concatenate(parts)
            self._best = int(np.argmax([roc_auc(clicked, values) for values in log_odds.T]))
            self._regression = fit_logistic(log_odds, clicked)

    def scores(self, samples: Samples) -> dict[str, np.ndarray]:
        log_odds = self._log_odds(samples)
        if self._regression is None or not len(log_odds):
            return {}
        return {BASELINE: self._regression.decision_function(log_odds), BEST_COLUMN: log_odds[:, self._best]}

    def _log_odds(self, samples: Samples) -> np.ndarray:
        """float64 ``[n, columns]``."""
        return np.column_stack([column.log_odds(samples) for column in self._columns])


class _Column:
    """The clicks of a column's values, counted in batches; memory grows with the distinct values only."""

    def __init__(self, feature: Feature) -> None:
        self.name, self._is_number = feature.name, feature.is_float
        self._edges: np.ndarray | None = None
        self._values = np.zeros(0, np.int64)
        self._views: np.ndarray = np.zeros(0)
        self._clicks: np.ndarray = np.zeros(0)

    def count(self, samples: Samples, clicked: np.ndarray) -> None:
        """Counts a batch; the first one cuts the numbers into bins."""
        if self._is_number and self._edges is None:
            self._edges = np.unique(np.quantile(samples[self.name], np.arange(1, _BINS) / _BINS))
        values, of_list = self._values_of(samples)
        counted = slice(None) if not of_list else values.ravel() != 0
        clicks = np.repeat(clicked, values.shape[1])[counted]
        joined = np.concatenate([self._values, values.ravel()[counted]])
        self._values, place = np.unique(joined, return_inverse=True)
        self._views = np.bincount(place, np.concatenate([self._views, np.ones(len(clicks))]))
        self._clicks = np.bincount(place, np.concatenate([self._clicks, clicks]))

    def log_odds(self, samples: Samples) -> np.ndarray:
        """Of each sample, float64 ``[n]``; 0 at the overall rate."""
        values, of_list = self._values_of(samples)
        if not 0 < self._clicks.sum() < self._views.sum():
            return np.zeros(len(values))
        rate = self._clicks.sum() / self._views.sum()
        clicks, others = self._clicks + _SMOOTHING * rate, self._views - self._clicks + _SMOOTHING * (1 - rate)
        known = np.append(np.log(clicks / others) - np.log(rate / (1 - rate)), 0.0)
        place = np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)
        place[self._values[place] != values] = -1
        counted = values != 0 if of_list else np.ones(values.shape, bool)
        sums = np.where(counted, known[place], 0.0).sum(1)
        return np.asarray(sums / np.maximum(counted.sum(1), 1))

    def _values_of(self, samples: Samples) -> tuple[np.ndarray, bool]:
        """Ids or bins, int64 ``[n, length]``, and whether they are lists padded with 0."""
        given = samples[self.name]
        if self._is_number:
            edges = np.zeros(0) if self._edges is None else self._edges
            given = np.searchsorted(edges, given, side="right")
        return given.astype(np.int64).reshape(len(given), -1), given.ndim > 1


def fit_logistic(columns: np.ndarray, labels: np.ndarray) -> Pipeline:
    """Logistic regression of the standardised columns, whose ridge penalty bounds the weights of separable classes.

    Args:
        columns: float ``[n, d]``.
        labels: 0 or 1, both present, ``[n]``.

    Returns:
        A model whose ``decision_function`` is the log-odds of label 1, float64 ``[n]``.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-8)).fit(columns, labels)


def telling_column(metrics: Mapping[str, Any]) -> Sequence[str]:
    """One sentence if a column alone ranks the test split without error, as a copy of the label does; else none."""
    auc, low = metrics.get(f"test_{BEST_COLUMN}_auc"), metrics.get(f"test_{BEST_COLUMN}_auc_low")
    if auc is None or low is None or auc < _TELLS or low < _SURELY:
        return ()
    return (
        f"column {metrics[BEST_COLUMN]} alone has a test AUC of {auc:.4f}; drop it if it is known only with the label",
    )


def column_baselines(spec: FeatureSpec) -> ColumnBaselines | None:
    """The baselines; None for data without columns of one value or of a list of ids, a label, or one of the splits."""
    if not {"train", "test"} <= set(spec.sources) or not spec.targets:
        return None
    held = set(spec.sources["train"].features) & set(spec.sources["test"].features)
    names = dict.fromkeys(name for channel in _CHANNELS for name in spec.channels.get(channel, ()) if name in held)
    features = map(spec.features.__getitem__, names)
    read = [each for each in features if each.length is None or each.cardinality is not None]
    return ColumnBaselines(spec, read) if read and spec.targets[0].name in held else None
