"""Metrics over NumPy arrays: ranking, calibration, and confidence intervals of differences.

Throughout, ``labels`` are 0 or 1, higher ``scores`` mean a more likely 1, and both have one entry per sample.
"""

from components.metrics.band import RocBands, roc_bands
from components.metrics.bootstrap import (
    CONFIDENCE,
    FEWEST,
    Interval,
    ResampledAuc,
    auc_interval,
    fewest_units,
    mean_interval,
    percentile_ends,
    rarer_units,
    resampled_auc,
)
from components.metrics.curves import (
    Calibration,
    auc_of_histograms,
    calibration,
    precision_recall_curve,
    roc_auc,
    roc_curve,
)
from components.metrics.delong import delong_interval
from components.metrics.grouped import GroupedAuc, auc_by_bucket, auc_by_group, grouped_auc
from components.metrics.lists import ListFigures
from components.metrics.mean_average_precision import RankedGroups
