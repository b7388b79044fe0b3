"""A training step of SASRec against the peak of a matrix product, and the best items of all users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.drawn import drawn_batch
from benchmarks.exported import export_model
from benchmarks.measuring import Figure, Plan, Report
from benchmarks.samples import specification
from benchmarks.training import flops, measure_step, worker_step

# Those of Amazon Beauty with at least five reviews of each.
USERS, ITEMS, CATEGORIES = 22_363, 12_101, 300
LENGTH, SIZE = 50, 64
# A separate process with TensorFlow's serving settings, like the command.
_RECOMMEND = """
import sys
from pathlib import Path
import numpy as np
from benchmarks.measuring import seconds
from components.scoring import load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.recommend import recommend
catalogue, users = Catalogue(load_raw_model(Path(sys.argv[1]))), int(sys.argv[2])
random = np.random.default_rng(1)
names = catalogue.names.to_pylist()
histories = [[names[place] for place in random.integers(0, len(names), 9)] for _ in range(users)]
for _ in sys.stdin:
    print(seconds(lambda: recommend(catalogue, ["A3"] * users, histories, 10)), flush=True)
"""


def measure(folder: Path, plan: Plan, report: Report) -> None:
    sizes = {"uid": USERS, "item": ITEMS, "cat": CATEGORIES}
    spec = specification(USERS, ITEMS, CATEGORIES, LENGTH)
    step = worker_step("sasrec", spec)
    work = flops_per_sample(step.parameters, LENGTH, ITEMS)
    batch = drawn_batch(spec, SIZE)
    # Every sample is learned from, as those of negatives=none.
    batch["label"] = tf.ones_like(batch["label"])
    measure_step(report, plan, "SASRec", step, batch, work)

    exported = export_model(folder / "model", "sasrec", step.model, spec, sizes)
    command = [sys.executable, "-c", _RECOMMEND, str(exported), str(USERS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, answered = process.stdin, process.stdout
        assert asked and answered
        took = []
        for _ in range(plan.runs):
            print(file=asked, flush=True)
            took.append(float(answered.readline()))
        asked.close()
    report.add(
        Figure(
            "retrieval", f"best 10 of {ITEMS:,} items for {USERS:,} users", "s", took, target=60, lower_is_better=True
        )
    )


def flops_per_sample(parameters: Any, length: int, items: int) -> float:
    """See ``benchmarks.training.flops``; each position is multiplied with the others and with all items."""
    width, layers = parameters.item_dim, parameters.attention_layers
    layer = 4 * width * width + 2 * width * parameters.feed_forward_dim + 2 * length * width
    return flops([], length * (layers * layer + width * items))
