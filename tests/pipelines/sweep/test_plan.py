"""The file of a sweep, and the Katib Experiment that is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from pipelines.sweep.plan import Dimension, load_plan

PLAN = """
model: din
parameters: {epochs: 2, train_seed: 1}
search:
  lr: {low: 0.0001, high: 0.01, log: true}
  embedding_dim: {low: 4, high: 16}
  global_batch_size: {choices: [256, 1024]}
trials: 12
parallel: 3
katib: {data: "gs://bucket/tfrecord", gpus: 0}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(PLAN)
    return path


def test_a_plan_is_read(file: Path) -> None:
    plan = load_plan(file)
    assert plan.dimensions["lr"] == Dimension(0.0001, 0.01, log=True)
    assert plan.dimensions["global_batch_size"].choices == (256, 1024)
    assert plan.metric.name == "auc"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("lr:", "lrr:", "search: lrr: unknown parameter lrr: did you mean lr?"),
        ("lr: {low", "synthetic_users: {low", "search: synthetic_users: is not a parameter of the training"),
        ("high: 0.01", "high: 0.00001", "search: lr: low 0.0001 is not below high 1e-05"),
        ("low: 0.0001", "low: 0.0", "search: lr: log needs a range above 0"),
        ("low: 4,", "low: 0,", "search: embedding_dim: parameter embedding_dim=0 must be at least 1"),
        ("{choices: [256, 1024]}", "{}", "search: global_batch_size: write either low and high, or choices"),
        ("{epochs: 2,", "{lr: 0.1,", "search: lr: is fixed under parameters, too"),
        ("trials: 12", "trials: 0", "trials: 0 must be at least 1"),
        ("trials: 12", "trails: 12", "unknown parameter trails: did you mean trials?"),
        ("lr:", "validation_share:", "search: validation_share: decides by which samples trials are judged"),
        ("low: 4,", "low: four,", "search: embedding_dim: low"),
    ],
)
def test_a_mistake_is_one_line(file: Path, before: str, after: str, told: str) -> None:
    file.write_text(PLAN.replace(before, after))
    with pytest.raises(KfrecError) as caught:
        load_plan(file)
    assert str(caught.value).startswith(f"{file}: {told}") and "\n" not in str(caught.value)
