"""The training log: one ``DLLL {json}`` line per record, the format of the public recommender examples' logger.

    DLLL {"timestamp": "1700000000.1", "elapsedtime": "3.2", "datetime": "2023-11-14 22:13:20.100000", "type": "LOG",
          "step": [1, 10], "data": {"loss": 0.69, "samples/s": 2700.0}, "metadata": {}}

``step`` is "PARAMETER" for the parameters, [epoch, step] for a step, [epoch] for an epoch and [] for the summary;
epochs and steps count from 1, and elapsedtime is in seconds. Where the public SIM measures the test split after each
epoch, as test_auc, kfrec measures validation samples, as validation_auc. In addition to kfrec's own entries, ``data``
has those of the public SIM, with its names and units:

- PARAMETER, with several ranks: gradient_exchange, "whole" or "rows" for each table;
- a step: total_loss and the parts of the loss that the model names (weighted, they sum to the loss), such as
  classification_loss, and samples/s, the only entry of a benchmark's step; kfrec's own seconds_left, the time to the
  end of the last epoch, from the second reading on;
- an epoch: throughput in samples/s; time in seconds, excluding validation; latency_mean, latency_p90, latency_p95 and
  latency_p99 in milliseconds, from the end of one step to the end of the next; train_auc, train_loss; and
  kfrec's own sent_bytes, the bytes that a rank sends per step, averaged over the ranks;
- the summary of a training: time_to_train in seconds, the sum of the epochs' time, and train_auc of the exported epoch;
- the summary of a benchmark: throughput, time and latencies as for an epoch; ``time`` includes warm-up steps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

PREFIX = "DLLL "
PARAMETER = "PARAMETER"
# The log and the results of a training, in the folder of its model.
LOG, TRAINING = "log.json", "training.json"
# Prefixes of the metric names of a training.
MEASURED = ("train", "validation")
# Names of a step in the log, and of its series in MLflow.
_OF_STEPS = {
    "loss": "loss",
    "samples/s": "samples_per_second",
    "step_time": "step_seconds",
    "seconds_left": "seconds_left",
}

# A step or an epoch, and its metrics by the names of their series in MLflow.
Point = tuple[int, dict[str, float]]


class TrainingLog:
    """Appends records to a file; without a file (on every rank but the first) it drops them.

    Args:
        path: the log file, or None.
    """

    def __init__(self, path: Path | None, append: bool = False) -> None:
        self._started = time.time()
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a" if append else "w")

    def write(self, step: Sequence[int] | str, data: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        now = time.time()
        record = {
            "timestamp": str(now),
            "elapsedtime": str(now - self._started),
            "datetime": str(datetime.fromtimestamp(now)),
            "type": "LOG",
            "step": step if isinstance(step, str) else list(step),
            "data": dict(data),
            "metadata": {},
        }
        self._file.write(PREFIX + json.dumps(record) + "\n")

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def is_training_log(path: Path) -> bool:
    """Whether a file is a training log or empty."""
    with path.open(errors="replace") as file:
        return file.read(len(PREFIX)) in ("", PREFIX)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log file, in order."""
    with path.open() as file:
        return [json.loads(line.removeprefix(PREFIX)) for line in file if line.startswith(PREFIX)]


def step_point(epoch: int, step: int, data: Mapping[str, Any], steps_per_epoch: int, log_steps: int) -> Point | None:
    """What MLflow shows of a step: those of every ``log_steps``-th, and of the last one of an epoch.

    Args:
        epoch: from 1.
        step: of the epoch, from 1.
    """
    if step % log_steps and step != steps_per_epoch:
        return None
    return (epoch - 1) * steps_per_epoch + step, {name: data[key] for key, name in _OF_STEPS.items() if key in data}


def epoch_point(number: int, result: Mapping[str, Any]) -> Point:
    """What MLflow shows of an epoch: its defined results."""
    known = {name: value for name, value in result.items() if name != "epoch" and value is not None}
    return number, {f"epoch/{name}": value for name, value in known.items()}


def points_of(log: Path, results: Mapping[str, Any], log_steps: int) -> list[Point]:
    """All that MLflow shows of a training, from its log and the content of training.json."""
    steps_per_epoch = results["steps_per_epoch"]
    steps = (
        step_point(record["step"][0], record["step"][1], record["data"], steps_per_epoch, log_steps)
        for record in read_log(log)
        if isinstance(record["step"], list) and len(record["step"]) == 2
    )
    epochs = [epoch_point(epoch["epoch"], epoch) for epoch in results["epochs"]]
    return [*filter(None, steps), *epochs]


def scores_of(epoch: Mapping[str, Any]) -> dict[str, float | None]:
    """The task's metrics in an epoch's results, such as train_auc and validation_auc."""
    prefixes = tuple(f"{split}_" for split in MEASURED)
    return {name: epoch[name] for name in epoch if name.startswith(prefixes) and name != "train_loss"}
