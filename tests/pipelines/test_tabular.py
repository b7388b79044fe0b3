"""A person's own table: one command from a CSV file and a schema to a registered model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

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
def test_a_table_and_a_schema_give_a_registered_model(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sales.csv").write_text(_table(4000))
    (tmp_path / "mine.yaml").write_text(SCHEMA)
    given = (f"table_schema={tmp_path / 'mine.yaml'}", "epochs=8", "global_batch_size=250", "bootstrap_samples=100")
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "run", "--model", "logistic_regression", "--dataset", "tabular",
         "--task", "click", "--source", str(tmp_path / "mine"), "--workdir", str(tmp_path / "runs"),
         *(word for value in given for word in ("--set", value))],
        env={name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(Path(done.stdout.splitlines()[-1]).read_text())
    assert summary["metrics"]["test_auc"] > 0.75
    assert summary["registered"]["alias"] == "champion"
    channels = yaml.safe_load((Path(summary["artifacts"]["tfrecord"]) / "feature_spec.yaml").read_text())[
        "channel_spec"
    ]
    assert channels["numerical"] == ["Unit_Price"] and channels["categorical"] == ["Unit_Price_bin", "town"]
    assert (Path(summary["artifacts"]["model"]) / "vocabulary" / "numbers.json").is_file()
