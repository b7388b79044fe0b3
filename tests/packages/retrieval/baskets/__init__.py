"""Retrieval without a label: two towers that learn from the pairs alone, and a task over vectors."""

from baskets.dataset import DATASET
from baskets.definition import MODEL
from baskets.task import TASK

__all__ = ["DATASET", "MODEL", "TASK"]
