"""Every variable that makes up the state of a model or an optimizer, trained or not."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def state_of(trackable: Any) -> list[tf.Variable]:
    """The variables below an object, in the same order in every process; random generators' states are among them."""
    return [found for found in tf.train.TrackableView(trackable).descendants() if isinstance(found, tf.Variable)]
