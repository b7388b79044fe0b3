"""A model of questions learns the built-in ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.artifacts import adopt
from components.datasets.squad.synthetic import write_synthetic
from components.parameters import build
from components.steps.catalog import STEPS
from components.tfrecord.step import run as tfrecord
from tests.preprocess.running import preprocess
from tests.train.in_process import run_worker

pytestmark = pytest.mark.slow

# A narrow encoder learns at a higher rate than the one of kfrec run, in fewer seconds.
SETTINGS = [
    f"--{name}={value}"
    for name, value in dict(
        model_type="electra_qa", task="question_answering", seed=1, epochs=4, global_batch_size=32, clip_norm=1,
        learning_rate=3e-3, layer_decay=1, null_threshold=0, hidden_dropout=0, attention_dropout=0,
        encoder_layers=2, encoder_width=64, attention_heads=2, feed_forward_width=256, token_width=64,
        initial_deviation=0.08, positions=64, export_epoch="last",
    ).items()
]  # fmt: skip


def test_the_built_in_questions_are_learned_from_scratch(tmp_path: Path) -> None:
    raw, parquet, records = (tmp_path / name for name in ("raw", "parquet", "records"))
    raw.mkdir()
    chosen = {"dataset": "squad", "source": "synthetic", "seed": 1, "synthetic_articles": 80}
    write_synthetic(build(STEPS["download"].parameters(chosen), chosen), raw)
    adopt(raw)
    preprocess(raw, parquet, dataset="squad", max_seq_length=64, max_query_length=16, test_share=0.1)
    tfrecord(STEPS["tfrecord"].of(), parquet=parquet, tfrecord=records)
    (tmp_path / "model").mkdir()
    run_worker([f"--dataset_dir={records}", f"--results_dir={tmp_path / 'model'}", *SETTINGS], tmp_path / "log")
    epochs = json.loads((tmp_path / "model" / "training.json").read_text())["epochs"]
    # The best possible F1 is 1; leaving all questions unanswered gives 0.3.
    assert epochs[-1]["validation_f1"] > 0.85
