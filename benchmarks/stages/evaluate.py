"""Scoring the test split, and the AUC of many scores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.samples import write_samples
from benchmarks.stages.step import our_step, tensors
from components import registry
from components.metrics import roc_auc
from components.parameters import as_plain
from components.steps.catalog import TfrecordParameters, worker_parameters
from components.tfrecord.step import run
from components.train.export import export
from components.train.results import SAVED_MODEL

ROWS, BATCH, SCORES = 262_144, 16_384, 10_000_000
# A separate process, like the evaluate step, because its TensorFlow thread settings differ from training's.
_SCORE = """
import sys
from pathlib import Path
from benchmarks.measuring import seconds
from components.feature_spec import load_feature_spec
from components.scoring import load_model, score_split
model, rows = load_model(Path(sys.argv[1])), int(sys.argv[2])
spec = load_feature_spec(Path(sys.argv[3]))
for _ in sys.stdin:
    print(seconds(lambda: score_split(spec, model, batch_size=rows)), flush=True)
"""


def measure(folder: Path, plan: Plan, report: Report) -> None:
    random = np.random.default_rng(1)
    labels, scores = random.random(SCORES) < 0.3, random.random(SCORES, np.float32)
    values = [seconds(lambda: roc_auc(labels, scores)) for _ in range(plan.runs)]
    report.add(Figure("evaluate", f"exact AUC of {SCORES:,} scores", "s", values, target=2, lower_is_better=True))

    records = folder / "tfrecord"
    run(TfrecordParameters(), parquet=write_samples(folder / "parquet", 1000, ROWS), tfrecord=records)
    _, model, step = our_step()
    data = tensors(BATCH, 1)
    served = {name: _spec(values) for name, values in data.items() if name in model.serving_features}
    with registry.model("sim").serving():
        export(model, registry.task("click"), served, folder / "model" / SAVED_MODEL)
    (folder / "model" / "parameters.json").write_text(json.dumps(as_plain(worker_parameters("sim")())))
    (folder / "model" / "feature_spec.yaml").write_text((records / "feature_spec.yaml").read_text())
    command = [sys.executable, "-c", _SCORE, str(folder / "model"), str(BATCH), str(records)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as scorer:
        asked, answered = scorer.stdin, scorer.stdout
        assert asked and answered

        def score() -> float:
            print(file=asked, flush=True)
            return ROWS / float(answered.readline())

        jobs = {"score": score, "train": lambda: BATCH / seconds(lambda: np.asarray(step(data)))}
        alternated(1, **jobs)
        measured = alternated(plan.runs, **jobs)
        asked.close()
    report.add(
        Figure(
            "evaluate", f"scoring from records, batch {BATCH}", "samples/s", measured["score"], measured["train"],
            target_ratio=2, note="the reference is kfrec's own training step",
        )
    )  # fmt: skip


def _spec(values):  # type: ignore[no-untyped-def]
    import tensorflow as tf

    return tf.TensorSpec((None, *values.shape[1:]), values.dtype)
