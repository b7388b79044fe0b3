"""The parts of a training step, by the scopes that its operations were defined in."""

from __future__ import annotations

import re

import tensorflow as tf

_SCOPES = {
    "look_up": "look-up",
    "look_up_gradient": "gradients of tables",
    "search": "search",
    "attend_gradient": "search",
    "gru": "recurrences",
    "gru_gradient": "recurrences",
    "augru": "recurrences",
    "augru_gradient": "recurrences",
    "score_pairs": "classifiers",
    "rectified_layers": "classifiers",
    "loss_scale": "loss scale",
    "exchange": "exchange",
    "metrics": "metrics",
    "adam": "optimizer",
    "adam_all": "optimizer",
    "sum_by_row": "optimizer",
}
PARTS = (*dict.fromkeys(_SCOPES.values()), "other")
"""In the order of a table."""


def part_of(operation: tf.Operation) -> str:
    """The part that an operation belongs to; a gradient belongs to that of what it is the gradient of."""
    scopes = [re.sub(r"_\d+$", "", scope) for scope in operation.name.split("/")]
    part = next((_SCOPES[scope] for scope in reversed(scopes) if scope in _SCOPES), "other")
    if operation.type == "UnsortedSegmentSum" or (part == "look-up" and "gradient_tape" in scopes):
        return "gradients of tables"
    return part
