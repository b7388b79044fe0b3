"""The parts of a training step, by the scopes of its operations."""

from __future__ import annotations

import re

import tensorflow as tf

_SCOPES = {
    "unpack": "input",
    "look_up": "look-up",
    "look_up_dense": "look-up",
    "look_up_gradient": "gradients of tables",
    "search": "search",
    "attend_gradient": "search",
    "gru": "recurrences",
    "gru_gradient": "recurrences",
    "augru": "recurrences",
    "augru_gradient": "recurrences",
    "draws": "draws",
    "attention_weights": "attention weights",
    "layer_norm": "normalisations",
    "scaled": "classifiers",
    "score_pairs": "classifiers",
    "rectified_layers": "classifiers",
    "masked_softmax": "classifiers",
    "loss_scale": "loss scale",
    "exchange": "exchange",
    "metrics": "metrics",
    "adam": "optimizer",
    "adam_all": "optimizer",
    "lamb": "optimizer",
    "sum_by_row": "optimizer",
}
PARTS = (*dict.fromkeys(_SCOPES.values()), "other")
"""In the order of a table."""


def part_of(operation: tf.Operation) -> str:
    """The part of an operation; a gradient belongs to the part of its forward operation."""
    return "gradients of tables" if operation.type == "UnsortedSegmentSum" else part_named(operation.name)


def part_named(name: str) -> str:
    """The part of an operation of this name."""
    scopes = [re.sub(r"_\d+$", "", scope) for scope in name.split("/")]
    part = next((_SCOPES[scope] for scope in reversed(scopes) if scope in _SCOPES), "other")
    if part == "look-up" and "gradient_tape" in scopes:
        return "gradients of tables"
    return part
