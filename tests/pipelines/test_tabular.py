"""A person's own table: the steps from a CSV file and a schema to a registered model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from components.steps.catalog import STEPS
from components.steps.command import call

CHOICES = {"dataset": "tabular", "task": "click", "model_type": "logistic_regression"}
SCHEMA = """\
label: {column: outcome, equals: "yes"}
split: {by: random, share: 0.25}
columns:
  Unit Price: {role: numeric, bins: 4}
  town: {role: categorical}
  tags: {role: multihot, longest: 2}
drop: ["*"]
"""


def _table(rows: int) -> str:
    """The outcome depends on the town and, in two ways, on the price."""
    random = np.random.default_rng(1)
    price, town = random.normal(10, 3, rows), random.integers(0, 5, rows)
    chance = 1 / (1 + np.exp(-(town - 2) - 1.5 * (np.abs(price - 10) < 2) + 0.75))
    outcome = np.where(random.random(rows) < chance, "yes", "no")
    lines = [f"{o},{p:.2f},town {t},a|b,note\n" for o, p, t in zip(outcome, price, town, strict=True)]
    return "outcome,Unit Price,town,tags,comment\n" + "".join(lines)


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_a_table_and_a_schema_give_a_registered_model(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sales.csv").write_text(_table(4000))
    (tmp_path / "mine.yaml").write_text(SCHEMA)
    given: dict[str, dict[str, Any]] = {
        "download": {"source": str(tmp_path / "mine")},
        "preprocess": {"workers": 1, "schema": str(tmp_path / "mine.yaml")},
        "tfrecord": {"workers": 1},
        "train": {"epochs": 8, "global_batch_size": 250},
        "evaluate": {},
        "register": {"registered_model": "sales", "bootstrap_samples": 100},
    }
    for name, values in given.items():
        chosen = {choice: value for choice, value in CHOICES.items() if choice in STEPS[name].chosen_by}
        folders = {folder: str(tmp_path / folder) for folder in (*STEPS[name].inputs, *STEPS[name].outputs)}
        call(STEPS[name], chosen | values, folders)
    assert json.loads((tmp_path / "evaluation" / "metrics.json").read_text())["test_auc"] > 0.75
    assert json.loads((tmp_path / "registration" / "registration.json").read_text())["alias"] == "champion"
    channels = yaml.safe_load((tmp_path / "tfrecord" / "feature_spec.yaml").read_text())["channel_spec"]
    assert channels["numerical"] == ["Unit_Price"] and channels["categorical"] == ["Unit_Price_bin", "town"]
    assert (tmp_path / "model" / "vocabulary" / "numbers.json").is_file()
