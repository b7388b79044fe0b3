"""A training worker that steps on request, so that steps of several trainings can be interleaved.

The scaling stage starts python -m benchmarks.worker SOCKET MODEL DATASET SAMPLES_A_RANK. The worker connects and sends
its pid; then it answers each line with the timing of one step, as JSON, until the connection closes.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from components.parameters import build
from components.steps.catalog import worker_parameters
from components.train.loop.runtime import configure, quiet_tensorflow


def main(address: str, model_type: str, dataset: str, samples_a_rank: int) -> None:
    quiet_tensorflow()
    from components.train.loop.benchmark import timed_steps
    from components.train.loop.ranks import connect
    from components.train.loop.session import open_session
    from components.train.loop.training import Training

    # Workers are paused while others are measured, for longer than Gloo's default timeout.
    os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "3600"
    ranks = connect()
    options = {
        "model_type": model_type,
        "benchmark": True,  # every sample trains
        "global_batch_size": samples_a_rank * ranks.size,
        "intra_op_parallelism": 1,
        "inter_op_parallelism": 1,
        "affinity": "disabled",
        "results_dir": str(Path(dataset).parent / "results"),
    }
    parameters: Any = build(worker_parameters(model_type), {name: str(value) for name, value in options.items()})
    configure(parameters, ranks)
    session = open_session(Path(dataset), parameters, ranks, seed=1)
    training = Training(session, seed=1)
    epochs = (session.training_batches(1, epoch) for epoch in itertools.count())
    steps = timed_steps(training.step.steps, itertools.chain.from_iterable(epochs), session.data.train_transfer.rows)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw") as stage:
            print(os.getpid(), file=stage, flush=True)
            for _ in stage:
                print(json.dumps(next(steps)), file=stage, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
