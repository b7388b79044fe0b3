"""The prediction pipeline, run here as KFP runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.artifacts import open_artifact
from tests.predict.conftest import Served, served  # noqa: F401


@pytest.mark.slow
def test_a_run_writes_the_scores_beside_the_rows(served: Served, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "days").mkdir()
    pd.DataFrame(served.rows).to_parquet(tmp_path / "days" / "monday.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "run", "--pipeline=prediction", f"--workdir={tmp_path / 'runs'}",
         f"--set=model_version={served.folder / 'model'}", f"--set=rows={tmp_path / 'days'}"],
        env={name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    made = open_artifact(done.stdout.splitlines()[-1])
    assert (made.step, made.rows["rows"]) == ("predict", len(served.scores))
    beside = pd.read_parquet(tmp_path / "days" / "monday.scores.parquet")
    np.testing.assert_allclose(beside["probability"], served.scores, atol=1e-6)
