"""The progress of a training: everything that a resumed run needs besides the weights."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from components.train.loop.listing import NAME

# Of the checkpoints that name their variables.
FORMAT = 2


@dataclass
class TrainingProgress:
    """Position and results of a training so far.

    Attributes:
        seed: of weights, dropout and batch order.
        variables: (name, shape) of the model's variables; the whole shape for sharded tables.
        tables: each rank's parts of sharded variables (``components.train.loop.shards.layout_of``).
        average_decay: decay of the weights' moving averages; 0 without averages.
        epoch: finished epochs, which is the index of the current epoch.
        best: name of the checkpoint of the best epoch so far; empty if none is kept.
        loss_sum: sum of this epoch's losses so far.
    """

    seed: int
    global_batch_size: int
    steps_per_epoch: int
    optimizer: str
    variables: list[list[Any]]
    tables: dict[str, list[list[int]]] = field(default_factory=dict)
    average_decay: float = 0.0
    validation_rows: int = 0
    epoch: int = 0
    finished_steps: int = 0
    step: int = 0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best: str = ""
    loss_sum: float = 0.0
    epoch_seconds: float = 0.0

    @property
    def global_step(self) -> int:
        return self.finished_steps + self.step

    @property
    def name(self) -> str:
        return f"{NAME}-{self.global_step}"


class ProgressState(tf.train.experimental.PythonState):
    """Stores a ``TrainingProgress`` and the totals of this epoch's metrics in a TensorFlow checkpoint.

    Attributes:
        format: of the checkpoint; anything but FORMAT for one of an earlier kfrec, whose progress stays None.
    """

    def __init__(self) -> None:
        self.format = FORMAT
        self.progress: TrainingProgress | None = None
        self.totals: list[np.ndarray] = []

    def serialize(self) -> str:
        assert self.progress is not None
        totals = [_packed(total) for total in self.totals]
        return json.dumps({"format": FORMAT, "standing": asdict(self.progress), "totals": totals})

    def deserialize(self, string_value: str | bytes) -> None:
        body = json.loads(string_value)
        progress = body["standing"]
        self.format = body.get("format", 1)
        if self.format != FORMAT:
            return
        self.progress = TrainingProgress(**progress)
        self.totals = [_unpacked(total) for total in body["totals"]]


def _packed(total: np.ndarray) -> dict[str, Any]:
    """A sparse array as JSON."""
    flat = total.reshape(-1).astype(np.float64)
    occupied = np.flatnonzero(flat)
    packed = np.stack([occupied.astype(np.float64), flat[occupied]])
    return {"shape": list(total.shape), "entries": base64.b64encode(zlib.compress(packed.tobytes())).decode()}


def _unpacked(body: Mapping[str, Any]) -> np.ndarray:
    packed = np.frombuffer(zlib.decompress(base64.b64decode(body["entries"]))).reshape(2, -1)
    flat = np.zeros(int(np.prod(body["shape"])))
    flat[packed[0].astype(np.int64)] = packed[1]
    return flat.reshape(body["shape"])
