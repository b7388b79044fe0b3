"""Regression: a data set with a float label, a model with one output, and a task whose metric is better if lower."""

from trips.dataset import DATASET
from trips.definition import MODEL
from trips.task import TASK

__all__ = ["DATASET", "MODEL", "TASK"]
