"""The model card: scores with their intervals beside the baselines', groups, data, and what a person fills in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components import registry
from components.checks.profile import TIME, Column, Finding, Profile, Table
from components.feature_spec import load_feature_spec
from components.register.documents import FILENAME, card
from components.register.gate import Decision
from components.steps.command import command
from tests.fakes.small_shop import make_data, make_model, quality

METRICS = {
    "test_auc": 0.7735, "test_auc_low": 0.7354, "test_auc_high": 0.8044, "test_rows": 6440, "test_positives": 322,
    "test_unknown_user_auc": 0.7742, "test_auc_above_unknown_user": 0.0007, "test_baseline_auc": 0.7482,
    "test_baseline_auc_low": 0.7092, "test_baseline_auc_high": 0.782, "test_auc_above_baseline": 0.0253,
    "test_logloss": 0.57,
    "by_history_length": [
        {"from": 1, "to": 5, "rows": 132, "auc": 0.8012}, {"from": 6, "to": None, "rows": 9, "auc": None},
    ],
    "by_category": [{"category": "books", "rows": 1200, "auc": 0.7}],
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("shop") / "tfrecord", rows=300)


def test_the_card_has_each_score_with_its_interval_and_what_is_to_be_filled_in(data: Path) -> None:
    decision = Decision("awaiting-approval", "It is better.", "test_auc", 0.7735)
    facts = {"data_version": "2026-11-27", "rows": 7000, "starts from": "s3://u:secret@bucket/model"}
    task, spec = registry.task("click"), load_feature_spec(data)
    text = card("shop-ctr version 3", decision, "Takes rows.", task, spec, METRICS, facts, None)
    lines = text.splitlines()
    assert lines[0] == "# shop-ctr version 3" and "Takes rows." in lines
    begin = lines.index("## Test AUC")
    assert lines[begin + 2 : begin + 9] == [
        "| | score | interval |", "|---|---|---|",
        "| this model | 0.7735 | 0.7354 to 0.8044 |",
        "| unknown user | 0.7742 |  |",
        "| baseline | 0.7482 | 0.7092 to 0.7820 |",
        "", "6,440 test samples, 322 of them positive.",
    ]  # fmt: skip
    assert (
        "- history length 1 to 5: 0.8012, 132 samples" in lines and "- category books: 0.7000, 1,200 samples" in lines
    )
    assert "- data version: 2026-11-27" in lines and "secret" not in text
    assert "It is awaiting approval. It is better." in lines and "- Licence of the data: *to be filled in*" in lines


def test_the_card_has_the_times_of_the_data_and_what_has_drifted(data: Path) -> None:
    column = Column(TIME, 0.0, lowest=0.0, highest=86_400.0)
    finding = Finding("psi", "events", "item", 0.4, 0.25, "warned")

    def lines(profile: Profile | None) -> list[str]:
        decision, task = Decision("champion", "It is better.", "test_auc", 0.7), registry.task("click")
        return card("shop version 1", decision, "", task, load_feature_spec(data), METRICS, {}, profile).splitlines()

    drifted = lines(Profile("events", {"events": Table(1200, 0, None, {"at": column})}, (finding,), compared=True))
    assert "- events: 1,200 rows, at 1970-01-01 00:00 to 1970-01-02 00:00 (UTC)" in drifted
    assert "- events: column item: its PSI against the reference is 0.400, above psi_limit=0.25" in drifted
    assert "None of 0 data checks is above its limit." in lines(Profile("events", {}, compared=True))
    assert "The data were compared with no earlier ones." in lines(None)


def test_the_register_step_writes_the_card_of_the_version(data: Path, store: str, tmp_path: Path) -> None:
    make_model(tmp_path / "model", data, belief=quality)
    inputs = [f"--tfrecord={data}", f"--model={tmp_path / 'model'}", f"--evaluation={tmp_path / 'evaluation'}"]
    assert command("evaluate", [*inputs, "--experiment=cards", "--run_id=card"]) == 0
    made = [f"--registration={tmp_path / 'registration'}", "--registered_model=with-a-card", "--run_id=card"]
    assert command("register", [*inputs, *made, "--experiment=cards", "--require_baseline=false"]) == 0
    text = (tmp_path / "registration" / FILENAME).read_text()
    registration = json.loads((tmp_path / "registration" / "registration.json").read_text())
    assert text.startswith("# with-a-card version 1\n") and registration["reason"] in text
    client = MlflowClient(store, store)
    held = client.get_model_version("with-a-card", "1")
    assert held.tags["kfrec.card"] == f"runs:/{held.run_id}/registration/{FILENAME}"
    assert FILENAME in {Path(each.path).name for each in client.list_artifacts(str(held.run_id), "registration")}
