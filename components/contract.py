"""What models, tasks and scoring agree on: names of outputs, and the label of a sample.

Any other output is between a model and its task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from components.errors import KfrecError
from components.feature_spec import Channel

T = TypeVar("T", bound=Any)

# Output of a model: the log-odds that a sample's label is 1, float32 ``[B]``.
LOGIT = "logit"
# Output of an exported signature: the probability that a sample's label is 1, float32 ``[B]``.
PROBABILITY = "probability"


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
