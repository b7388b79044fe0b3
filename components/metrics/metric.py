"""A metric by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric of a model.

    Attributes:
        name: in files and in MLflow, after ``train_``, ``validation_`` or ``test_``, such as "auc".
        label: display name, such as "AUC".
        higher_is_better: the direction of the metric.
        is_loss: whether training minimises it; it is then drawn with the training loss.
        of_groups: whether it needs whole groups of samples, which a rank's share of shuffled samples lacks.
    """

    name: str
    label: str
    higher_is_better: bool = True
    is_loss: bool = False
    of_groups: bool = False
