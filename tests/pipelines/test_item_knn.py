"""Item-kNN, alone and mixed with SASRec, from raw events to lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipelines.cli import main
from tests.pipelines.conftest import Run


@pytest.mark.slow
@pytest.mark.parametrize(("model", "settings"), [("item_knn", ()), ("sasrec_knn", ("beat_baseline=false",))])
def test_it_becomes_champion_and_lists_leave_out_what_is_excluded(
    in_process: Callable[..., Run], tmp_path: Path, model: str, settings: tuple[str, ...]
) -> None:
    # So few events that nothing is above the baseline of pairs by more than chance.
    small = ("synthetic_users=150", "epochs=2", "catalogue_users=20", "tfrecord_workers=1", *settings)
    words = [word for value in small for word in ("--set", value)]
    run = in_process(tmp_path / "runs", "--model", model, "--dataset", "events", *words).summary
    assert run["registered"]["alias"] == "champion"

    def lists(*more: str) -> pd.DataFrame:
        output = tmp_path / "lists.parquet"
        given = ["--all", "--model", run["artifacts"]["model"], "--data", run["artifacts"]["tfrecord"], "--top", "5"]
        assert main(["recommend", *given, "--output", str(output), "--workdir", str(tmp_path / "runs"), *more]) == 0
        return pq.read_table(output).to_pandas()

    first = lists()
    excluded = first[first["rank"] == 1][["user", "item"]]
    excluded.to_csv(tmp_path / "bought.csv", index=False)
    second = lists("--exclude", str(tmp_path / "bought.csv"))
    assert second["user"].nunique() == first["user"].nunique() == len(excluded)
    assert not set(map(tuple, excluded.to_numpy())) & set(map(tuple, second[["user", "item"]].to_numpy()))
    # What was second is first now.
    best, other = (each.set_index("user")["item"] for each in (second[second["rank"] == 1], first[first["rank"] == 2]))
    assert (best == other.reindex(best.index)).mean() > 0.95
