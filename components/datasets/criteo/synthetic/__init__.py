"""Synthetic impressions in the format of the raw files."""

from components.datasets.criteo.synthetic.files import write_synthetic
from components.datasets.criteo.synthetic.truth import best_auc

__all__ = ["best_auc", "write_synthetic"]
