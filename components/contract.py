"""What data sets, models, tasks and scoring agree on: outputs and metrics by name, the label, pieces of quantiles.

Any other output is between a model and its task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from components.errors import KfrecError
from components.feature_spec import Channel

T = TypeVar("T", bound=Any)

# Output of a model and of its exported signature: the log-odds that a sample's label is 1, float32 ``[B]``.
LOGIT = "logit"
# Output of an exported signature: the probability that a sample's label is 1, float32 ``[B]``.
PROBABILITY = "probability"
# Output of a model that compares a target with all candidates: the logarithm of its probability among them, ``[B]``.
LOG_LIKELIHOOD = "log_likelihood"
# The outputs that candidates can be ranked by; the first one that a model has.
RANKED_BY = (LOG_LIKELIHOOD, LOGIT, PROBABILITY)

# The longest list that is judged; the rank of a target that is in no list is above it.
LONGEST_LIST = 100_000

# Pieces of a quantile function, and in which models expand quantiles, so that a piece begins at each of its knots.
PIECES = 32


def ranked_by(outputs: Iterable[str]) -> str | None:
    """The output that candidates are ranked by: the first of RANKED_BY, or else the only one; None among others."""
    names = list(outputs)
    return next((name for name in RANKED_BY if name in names), names[0] if len(names) == 1 else None)


def only_label(targets: Mapping[str, T]) -> T:
    """The label of a model or a task that knows one value a sample.

    Args:
        targets: tensors or arrays by feature, ``[B]`` or ``[B, length]``.

    Raises:
        KfrecError: there are none or several, or it is a list.
    """
    labels = list(targets.values())
    if len(labels) != 1 or len(labels[0].shape) != 1:
        raise KfrecError(
            f"the channel {Channel.LABEL} has the features {', '.join(targets) or 'none'}, where one value a sample is "
            "learned and judged; name one such feature, or choose another model and task"
        )
    return labels[0]


@dataclass(frozen=True)
class Metric:
    """A metric of a model.

    Attributes:
        name: in files and in MLflow, after ``train_``, ``validation_`` or ``test_``, such as "auc".
        label: display name, such as "AUC".
        higher_is_better: the direction of the metric.
        is_loss: whether training minimises it; it is then drawn with the training loss.
        of_groups: whether it needs whole groups of samples, which a rank's share of shuffled samples lacks.
        k: the parameter that is the K at the end of the label, such as "list_length" of "NDCG@K"; empty without one.
    """

    name: str
    label: str
    higher_is_better: bool = True
    is_loss: bool = False
    of_groups: bool = False
    k: str = ""

    def at(self, values: Mapping[str, Any]) -> Metric:
        """The metric with its K in the label, such as "NDCG@10".

        Args:
            values: parameters that include the metric's, or a metrics.json.
        """
        k = values.get(self.k, values.get(f"test_{self.k}"))
        return self if k is None else replace(self, label=f"{self.label.partition('@')[0]}@{k}")
