"""A model, a data set and a task in a package of their own; docs/adding-a-model.md explains them."""

from toy.dataset import DATASET
from toy.definition import MODEL
from toy.task import TASK

__all__ = ["DATASET", "MODEL", "TASK"]
