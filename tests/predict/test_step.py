"""The predict step: a folder of files in, an artifact and scores beside the input out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.artifacts import open_artifact
from components.errors import KfrecError
from components.predict.step import run
from components.steps.catalog import PredictParameters
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")
MODEL = f"{REGISTERED}@champion"


def test_every_file_of_a_folder_is_scored_and_the_scores_lie_beside_it(served: Served, tmp_path: Path) -> None:
    rows = pd.DataFrame(served.rows)
    place = tmp_path / "days"
    place.mkdir()
    rows[:30].to_parquet(place / "one.parquet")
    rows[30:].to_json(place / "two.jsonl", orient="records", lines=True)
    (place / "readme.txt").write_text("not rows")
    for _ in range(2):  # the second call reads no scores, and replaces those of the first
        told = run(PredictParameters(MODEL, str(place)), predictions=tmp_path / "out")
    assert (told["rows"], told["rows_with_unknown_ids"]) == (len(rows), 0)
    assert f"{REGISTERED} version 1 scored {len(rows)} rows" in told["summary"]
    found = np.r_[
        pd.read_parquet(place / "one.scores.parquet")["probability"],
        pd.read_json(place / "two.scores.jsonl", lines=True)["probability"],
    ]
    np.testing.assert_allclose(found, served.scores, atol=1e-6)
    made = open_artifact(tmp_path / "out")
    made.verify()
    assert {entry.path for entry in made.files} == {"one.parquet", "two.jsonl", "prediction.json"}
    assert made.origins["one.parquet"]["source"].endswith("days/one.parquet")
    assert json.loads((tmp_path / "out" / "prediction.json").read_text())["model"] == f"{REGISTERED} version 1"


def test_a_single_file_in_object_storage_gets_its_scores_beside_it(
    served: Served, tmp_path: Path, gcs_bucket: Any
) -> None:
    from components.storage import open_store

    pd.DataFrame(served.rows[:5]).to_parquet(tmp_path / "rows.parquet")
    prefix = f"gs://{gcs_bucket.name}/days"
    open_store(prefix).write("rows.parquet", tmp_path / "rows.parquet")
    small = (tmp_path / "rows.parquet").stat().st_size - 1
    with pytest.raises(KfrecError, match=r"have more than .* GB; choose fewer, or raise largest_download"):
        run(
            PredictParameters(MODEL, f"{prefix}/rows.parquet", largest_download=small / 1e9),
            predictions=tmp_path / "out",
        )
    run(PredictParameters(MODEL, f"{prefix}/rows.parquet"), predictions=tmp_path / "out")
    store = open_store(prefix)
    (tmp_path / "found.parquet").write_bytes(b"".join(store.read(store.stat("rows.scores.parquet"))))
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "found.parquet")["probability"], served.scores[:5], atol=1e-6)


def test_a_file_of_others_beside_the_rows_is_not_replaced(served: Served, tmp_path: Path) -> None:
    pd.DataFrame(served.rows[:3]).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    (tmp_path / "a.scores.jsonl").write_text('{"mine": 1}\n')
    with pytest.raises(KfrecError, match=r"a\.scores\.jsonl: exists and holds no scores"):
        run(PredictParameters(MODEL, str(tmp_path)), predictions=tmp_path.parent / f"{tmp_path.name}-out")
    run(PredictParameters(MODEL, str(tmp_path), beside=False), predictions=tmp_path.parent / f"{tmp_path.name}-out")
    assert (tmp_path / "a.scores.jsonl").read_text() == '{"mine": 1}\n'


def test_an_object_of_others_beside_the_rows_is_not_replaced(served: Served, tmp_path: Path, gcs_bucket: Any) -> None:
    from components.storage import open_store

    pd.DataFrame(served.rows[:3]).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    (tmp_path / "mine.jsonl").write_text('{"mine": 1}\n')
    store = open_store(f"gs://{gcs_bucket.name}/others")
    store.write("a.jsonl", tmp_path / "a.jsonl")
    store.write("a.scores.jsonl", tmp_path / "mine.jsonl")
    with pytest.raises(KfrecError, match=r"^gs://.*/others/a\.scores\.jsonl: exists and holds no scores"):
        run(PredictParameters(MODEL, store.uri), predictions=tmp_path / "out")
    assert b"".join(store.read(store.stat("a.scores.jsonl"))) == b'{"mine": 1}\n'
    store.remove("a.scores.jsonl")
    for _ in range(2):  # the second call replaces the scores of the first
        run(PredictParameters(MODEL, store.uri), predictions=tmp_path / "out")
    assert b"probability" in b"".join(store.read(store.stat("a.scores.jsonl")))
