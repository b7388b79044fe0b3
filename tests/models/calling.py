"""Calls models of one label and one logit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from components.contract import LOGIT
from components.models import LossTerm, Model
from components.models.model import loss_terms_of, outputs_of


def logits(model: Model, features: Mapping[str, Any]) -> tf.Tensor:
    """The logits of a batch, [B]."""
    return outputs_of(model, features)[LOGIT]


def loss_terms(
    model: Model, features: Mapping[str, Any], labels: Any, training: bool = True
) -> tuple[tf.Tensor, dict[str, LossTerm]]:
    """The logits of a batch without padding samples, and the terms of its loss."""
    label = tf.convert_to_tensor(labels)
    outputs, terms = loss_terms_of(model, features, {"label": label}, tf.ones(tf.shape(label), tf.bool), training)
    return outputs[LOGIT], terms
