"""Where a training stands: everything that a resumed run must know beside the weights."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass
class Standing:
    """Position and results of a training so far.

    Attributes:
        seed: of weights, dropout and batch order.
        global_batch_size: samples a step.
        steps_per_epoch: steps of one epoch.
        optimizer: its name.
        variables: (name, shape) of the model's variables, in order.
        epoch: finished epochs; the epoch to go on with, counted from 0.
        step: steps of that epoch already done.
        epochs: results of the finished epochs, as in training.json.
        loss_sum: sum of this epoch's losses so far.
        epoch_seconds: spent in this epoch so far.
        seconds: spent since the training began, over all runs of it.
    """

    seed: int
    global_batch_size: int
    steps_per_epoch: int
    optimizer: str
    variables: list[list[Any]]
    epoch: int = 0
    step: int = 0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    loss_sum: float = 0.0
    epoch_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def global_step(self) -> int:
        return self.epoch * self.steps_per_epoch + self.step


class StandingState(tf.train.experimental.PythonState):
    """Carries a :class:`Standing` and this epoch's logit histogram inside a TensorFlow checkpoint."""

    def __init__(self) -> None:
        self.standing: Standing | None = None
        self.histogram: np.ndarray = np.zeros(0)

    def serialize(self) -> str:
        assert self.standing is not None
        occupied = np.flatnonzero(self.histogram)
        packed = (
            np.stack([occupied.astype(np.float64), self.histogram[occupied]]) if occupied.size else np.zeros((2, 0))
        )
        body = {
            "standing": asdict(self.standing),
            "bins": int(self.histogram.size),
            "histogram": base64.b64encode(zlib.compress(packed.tobytes())).decode(),
        }
        return json.dumps(body)

    def deserialize(self, string_value: str | bytes) -> None:
        body = json.loads(string_value)
        packed = np.frombuffer(zlib.decompress(base64.b64decode(body["histogram"]))).reshape(2, -1)
        self.standing = Standing(**body["standing"])
        self.histogram = np.zeros(body["bins"])
        self.histogram[packed[0].astype(np.int64)] = packed[1]
