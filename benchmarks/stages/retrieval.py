"""A training step of SASRec against the peak of a matrix product, the best items of all users, and two stages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.drawn import drawn_batch
from benchmarks.exported import export_model
from benchmarks.measuring import Figure, Plan, Report
from benchmarks.samples import specification
from benchmarks.training import flops, measure_step, worker_step
from components.tasks.pairing import RETRIEVED

# Those of Amazon Beauty with at least five reviews of each.
USERS, ITEMS, CATEGORIES = 22_363, 12_101, 300
LENGTH, RANKED_LENGTH, SIZE = 50, 100, 64
# Users for whom two stages and one are timed.
TIMED = 20
# A separate process with TensorFlow's serving settings, like the command; a line of its input is a number of users, and
# a number of retrieved candidates, 0 for none of the first stage and -1 for none of the second.
_RECOMMEND = """
import sys
from pathlib import Path
import numpy as np
from benchmarks.measuring import seconds
from components.scoring import load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.recommend import recommend
from components.scoring.two_stages import TwoStages
retriever, ranker = (Catalogue(load_raw_model(Path(folder))) for folder in sys.argv[1:])
random = np.random.default_rng(1)
names = retriever.names.to_pylist()
def lists(count, retrieved):
    stages = {0: ranker, -1: retriever}.get(retrieved) or TwoStages(retriever, ranker, retrieved)
    histories = [[names[place] for place in random.integers(0, len(names), 9)] for _ in range(count)]
    return seconds(lambda: recommend(stages, ["A3"] * count, histories, 10))
for retrieved in (0, -1, 10):
    lists(2, retrieved)
for line in sys.stdin:
    print(lists(*map(int, line.split())), flush=True)
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

    of_ranker = specification(USERS, ITEMS, CATEGORIES, RANKED_LENGTH)
    exported = [
        export_model(folder / "retriever", "sasrec", step.model, spec, sizes),
        export_model(folder / "ranker", "sim", worker_step("sim", of_ranker).model, of_ranker, sizes),
    ]
    with _recommending(exported) as took:
        every = [took(USERS, -1) for _ in range(plan.runs)]
        whole = took(USERS, RETRIEVED)
        pairs = [(took(TIMED, RETRIEVED), took(TIMED, 0)) for _ in range(plan.runs)]
    best = f"best 10 of {ITEMS:,} items"
    report.add(Figure("retrieval", f"{best} for {USERS:,} users, SASRec", "s", every, target=60, lower_is_better=True))
    report.add(
        Figure(
            "retrieval",
            f"{best} for {USERS:,} users, SIM ranks {RETRIEVED} of SASRec",
            "s",
            [whole],
            target=60,
            lower_is_better=True,
        )
    )
    two, one = ([seconds / TIMED * 1000 for seconds in values] for values in zip(*pairs, strict=True))
    report.add(
        Figure(
            "retrieval",
            f"{best}, SIM ranks {RETRIEVED} of SASRec",
            "ms a user",
            two,
            reference=one,
            target_ratio=20,
            lower_is_better=True,
            note="the reference is SIM over all items",
        )
    )


@contextmanager
def _recommending(models: list[Path]) -> Iterator[Any]:
    """The process; yields a function of a number of users and of retrieved candidates, which returns seconds."""
    command = [sys.executable, "-c", _RECOMMEND, *map(str, models)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, answered = process.stdin, process.stdout
        assert asked and answered

        def took(users: int, retrieved: int) -> float:
            print(users, retrieved, file=asked, flush=True)
            return float(answered.readline())

        yield took
        asked.close()


def flops_per_sample(parameters: Any, length: int, items: int) -> float:
    """See ``benchmarks.training.flops``; each position is multiplied with the others and with all items."""
    width, layers = parameters.item_dim, parameters.attention_layers
    layer = 4 * width * width + 2 * width * parameters.feed_forward_dim + 2 * length * width
    return flops([], length * (layers * layer + width * items))
