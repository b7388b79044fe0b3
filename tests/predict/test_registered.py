"""The registered model: raw rows in, the scores out that the evaluation wrote."""

from __future__ import annotations

from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from pipelines.cli import main
from tests.predict.conftest import REGISTERED, Served


def test_a_notebook_gets_the_scores_of_the_evaluation(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    found = model.predict(pd.DataFrame(served.rows))
    np.testing.assert_allclose(found["probability"], served.scores, atol=1e-6)
    assert found["unknown_ids"].tolist() == [0] * len(served.scores)


def test_no_rows_get_no_scores(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    found = model.predict(pd.DataFrame(served.rows).head(0))
    assert (len(found), list(found)) == (0, ["probability", "logit", "unknown_ids"])


def test_what_the_model_has_never_seen_is_counted(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    rows = pd.DataFrame([{"user": "nobody", "history": ["nothing", served.rows[0]["item"]], "item": "new"}])
    assert model.predict(rows)["unknown_ids"].tolist() == [3]


def test_its_example_signature_and_description_say_what_it_takes(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    assert model.metadata.signature.inputs.input_names() == ["user", "history", "item"]
    assert model.metadata.signature.inputs.required_input_names() == ["user", "history"]
    assert model.metadata.signature.outputs.input_names() == ["probability", "logit", "unknown_ids"]
    assert model.predict(model.input_example)["unknown_ids"].tolist() == [0, 0]
    version = MlflowClient(store, registry_uri=store).get_model_version_by_alias(REGISTERED, "champion")
    description = str(version.description)
    assert "`history`: ids of the items before, oldest first" in description
    assert "p / (1 - p) is the lift" in description and "With the parameter `top`" in description


def test_rows_without_an_item_get_the_lists_of_the_command(served: Served, store: str, tmp_path: Path) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    rows = pd.DataFrame(served.rows[:6])
    found = model.predict(rows[["user", "history"]], params={"top": 3})
    rows[["user", "history"]].to_json(tmp_path / "users.jsonl", orient="records", lines=True)
    command = ["recommend", f"--model={REGISTERED}@champion", f"--users={tmp_path / 'users.jsonl'}", "--top=3"]
    assert main([*command, f"--output={tmp_path / 'lists.parquet'}"]) == 0
    of_command = pd.read_parquet(tmp_path / "lists.parquet").drop(columns=["model", "version"])
    pd.testing.assert_frame_equal(found, of_command)
    assert found["rank"].tolist() == [1, 2, 3] * 6


def test_seen_items_are_ranked_if_they_are_kept(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    row = pd.DataFrame(served.rows[:1])[["user", "history"]]
    kept, left = (model.predict(row, params={"top": 1000, "keep_seen": keep}) for keep in (True, False))
    assert set(kept["item"]) - set(left["item"]) == set(served.rows[0]["history"]) & set(served.items)
    # As in the evaluation: the data keep seen items.
    pd.testing.assert_frame_equal(model.predict(row, params={"top": 1000}), kept)


def test_a_request_names_what_may_be_in_its_lists(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    rows, items = pd.DataFrame(served.rows[:2])[["user", "history"]], sorted(served.items)[:5]
    given = {"top": 9, "keep_seen": True, "candidates": [*items, "new"], "exclude": items[1:3]}
    found = model.predict(rows, params=given)
    for user in rows["user"]:
        assert set(found["item"][found["user"] == user]) == {items[0], *items[3:], "new"}
    assert found.groupby("user")["item"].last().tolist() == ["new"] * 2
    with pytest.raises(MlflowException, match="give the parameter top, too"):
        model.predict(rows.assign(item=items[0]), params={"exclude": items})


@pytest.mark.parametrize(
    ("columns", "top", "named"),
    [(["user", "history"], 0, "no column item"), (["user", "history", "item"], 3, "drop the column")],
)
def test_rows_are_scored_or_ranked_but_not_both(
    columns: list[str], top: int, named: str, served: Served, store: str
) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    with pytest.raises(MlflowException, match=named):
        model.predict(pd.DataFrame(served.rows[:2])[columns], params={"top": top})
