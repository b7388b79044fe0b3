"""Synthetic impressions in the format of the raw files."""

from components.datasets.criteo.synthetic.best import best_auc
from components.datasets.criteo.synthetic.files import write_synthetic

__all__ = ["best_auc", "write_synthetic"]
