"""kfrec predict, kfrec recommend and kfrec serve-manifest."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.cli import main
from pipelines.serving import inference_service
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """Rows in the format of the file's name."""
    if path.name.endswith(".parquet"):
        pd.DataFrame(rows).to_parquet(path)
    elif path.name.endswith(".csv"):
        flat = [{**row, "history": "|".join(row["history"])} for row in rows]  # type: ignore[arg-type]
        pd.DataFrame(flat).to_csv(path, index=False)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(content.encode()) if path.name.endswith(".gz") else content.encode())
    return path


def read(path: Path) -> pd.DataFrame:
    if path.name.endswith(".parquet"):
        return pd.read_parquet(path)
    return pd.read_csv(path) if ".csv" in path.name else pd.read_json(path, lines=True)


@pytest.mark.parametrize("model", [f"{REGISTERED}@champion", f"models:/{REGISTERED}/1", "folder"])
@pytest.mark.parametrize(
    ("source", "target"), [("a.parquet", "b.csv"), ("a.csv", "b.jsonl.gz"), ("a.jsonl.gz", "b.parquet")]
)
def test_every_format_gets_the_scores_of_the_evaluation(
    source: str, target: str, model: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if model == "folder":
        model = str(served.folder / "model")
    rows = [{**row, "note": f"no {number}"} for number, row in enumerate(served.rows)]
    given = write(tmp_path / source, rows)
    out = tmp_path / target
    assert main(["predict", model, "--input", str(given), "--output", str(out), "--batch-size=7"]) == 0
    found = read(out)
    np.testing.assert_allclose(found["probability"], served.scores, atol=1e-6)
    assert found["note"].tolist() == [f"no {number}" for number in range(len(rows))]
    assert list(found.columns) == ["user", "history", "item", "note", "probability", "unknown_ids"]
    said = capsys.readouterr().out
    assert f"{len(rows)} rows, " in said and "rows/s; the model knows all ids" in said


def test_unknown_ids_are_counted_and_said(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = served.rows[0]
    rows = [known, {**known, "item": "new"}, {"user": "nobody", "history": ["x", "y"], "item": known["item"]}]
    out = tmp_path / "out.jsonl"
    given = write(tmp_path / "rows.jsonl", rows)
    assert main(["predict", f"{REGISTERED}@champion", "--input", str(given), "--output", str(out)]) == 0
    assert (
        "2 rows have ids that the model has never seen (1 of user, 2 of history, 1 of item)" in capsys.readouterr().out
    )
    assert read(out)["unknown_ids"].tolist() == [0, 1, 3]


def test_scores_of_an_earlier_call_are_replaced(served: Served, tmp_path: Path) -> None:
    given, out = write(tmp_path / "rows.csv", served.rows[:2]), tmp_path / "out.csv"
    command = ["predict", f"{REGISTERED}@champion", "--input", str(given), "--output", str(out)]
    assert main(command) == 0
    write(tmp_path / "rows.csv", served.rows[:3])
    assert main(command) == 0
    assert len(read(out)) == 3 and sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "rows.csv"]


def test_recommendations_follow_the_history_of_the_data_and_leave_it_out(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The positive sample of a user has the held-out item as its target.
    labels = pq.read_table(served.folder / "evaluation" / "predictions.parquet")["label"].to_pylist()
    row = next(row for row, label in zip(served.rows, labels, strict=True) if label)
    seen = [*row["history"], row["item"]][-100:]
    by_data, by_hand = tmp_path / "data.parquet", tmp_path / "hand.parquet"
    command = ["recommend", row["user"], f"--model={REGISTERED}@champion", "--top=5"]
    assert main([*command, f"--output={by_data}"]) == 0
    assert f"after {len(seen)} items" in capsys.readouterr().out
    assert main([*command, f"--history={','.join(seen)}", f"--output={by_hand}"]) == 0
    found = read(by_data)
    pd.testing.assert_frame_equal(found, read(by_hand))
    assert found["rank"].tolist() == [1, 2, 3, 4, 5] and found["probability"].is_monotonic_decreasing
    assert not set(found["item"]) & set(seen)
    # They are the scores that predict gives the same rows.
    given = write(
        tmp_path / "r.jsonl", [{"user": row["user"], "history": seen, "item": item} for item in found["item"]]
    )
    out = tmp_path / "p.parquet"
    assert main(["predict", f"{REGISTERED}@champion", "--input", str(given), "--output", str(out)]) == 0
    np.testing.assert_allclose(read(out)["probability"], found["probability"], atol=1e-6)


def test_candidates_may_come_from_a_file(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = sorted({row["item"] for row in served.rows})[:3]
    given = write(tmp_path / "candidates.jsonl", [{"item": item} for item in [*items, "new"]])
    words = ["recommend", "nobody", f"--model={REGISTERED}@champion", "--history=,", f"--candidates={given}"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert all(item in said for item in [*items, "new"]) and "1 ids of the user and the history are unknown" in said


def test_an_output_that_is_a_link_is_followed(served: Served, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out.csv").symlink_to(tmp_path / "disk" / "scores.csv")
    for count, output in ((2, tmp_path / "disk" / "scores.csv"), (3, tmp_path / "out.csv")):
        rows = write(tmp_path / "rows.jsonl", served.rows[:count])
        assert main(["predict", f"{REGISTERED}@champion", f"--input={rows}", f"--output={output}"]) == 0
    assert (tmp_path / "out.csv").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["scores.csv"]
    assert len(read(tmp_path / "disk" / "scores.csv")) == 3


def test_an_alias_becomes_its_version(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve-manifest", f"{REGISTERED}@champion", "--name=ads"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == inference_service(REGISTERED, "1", "ads")


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("name", ["", "Ads", "1ads", "a" * 60, "a_b", "a/b"])
def test_a_name_that_kubernetes_refuses_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve-manifest", f"{REGISTERED}/1", f"--name={name}"]) == 2
    assert capsys.readouterr().err.startswith("error: --name ")
