"""kfrec feedback, and its line in kfrec runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.cli import main
from tests.feedback.conftest import BEGIN, NAME, NOW, Shop, click_rate, columns, scored, served_table, write_served


@pytest.mark.slow
def test_feedback_is_a_run_with_its_live_metric(
    shop: Shop, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(3)
    visits = columns(random, 500)
    served = write_served(tmp_path / "served", served_table(visits, scored(shop.model, visits), [BEGIN] * 500))
    clicked = np.flatnonzero(random.random(500) < click_rate(visits))
    pd.DataFrame({"request_id": [f"v1-{row}" for row in clicked]}).to_csv(tmp_path / "came.csv", index=False)
    where = [f"--workdir={tmp_path / 'runs'}", f"--tracking-uri={store}"]
    given = [f"--served={served}", f"--outcomes={tmp_path / 'came.csv'}", f"--model={NAME}@champion"]
    assert main(["feedback", *given, f"--set=known_until={NOW:%Y-%m-%d %H:%M}", *where]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1])
    live = json.loads((folder / "live.json").read_text())
    assert main(["runs", "--json", where[0]]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["pipeline"], row["state"], row["metric"]) == ("feedback", "finished", "live AUC")
    assert row["score"] == live["total"]["live_auc"]
