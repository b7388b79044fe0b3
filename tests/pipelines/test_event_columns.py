"""Purchases as targets, by their weights, after views that tell their kind, device and price: from a run to lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from components.feature_spec import Channel, load_feature_spec
from pipelines.cli import main
from tests.pipelines.conftest import Run

SMALL = (
    "synthetic_users=400", "synthetic_items=150", "synthetic_categories=5", "synthetic_shop_days=14",
    "shortest_sequence_for_user=3", "max_sequence_length=12", "catalogue_users=20", "tfrecord_workers=1", "epochs=2",
    "target_kinds=purchase,cart", "context_kinds=view,cart", "kind_weights=purchase=1,cart=0.5,view=0.2",
    "weighted_loss=true", "event_categories=event,device", "event_numbers=price", "known_columns=device",
)  # fmt: skip
OWN = {"sasrec": ("item_dim=16", "feed_forward_dim=16"), "sim": ("embedding_dim=4", "long_seq_length=6")}


@pytest.mark.slow
@pytest.mark.parametrize("model", list(OWN))
def test_a_run_learns_from_the_columns_and_its_lists_read_them(
    in_process: Callable[..., Run], tmp_path: Path, model: str
) -> None:
    words = [word for value in (*SMALL, *OWN[model]) for word in ("--set", value)]
    run = in_process(tmp_path / "runs", "--model", model, "--dataset", "events", *words).summary
    spec = load_feature_spec(run["artifacts"]["model"])
    assert len(spec.channels[Channel.EVENTS]) == 3 and spec.channels[Channel.WEIGHT] == ("weight",)
    if model == "sasrec":
        metrics = json.loads((Path(run["artifacts"]["evaluation"]) / "metrics.json").read_text())
        assert {each["kind"]: each["rows"] > 0 for each in metrics["by_kind"]} == {"purchase": True, "cart": True}
        assert {each["column"] for each in metrics["importance"]} == {"event", "device", "price"}
        assert "What each column adds" in (Path(run["artifacts"]["evaluation"]) / "report.html").read_text()
    output = tmp_path / "lists.csv"
    given = ["--model", run["artifacts"]["model"], "--top", "5", "--workdir", str(tmp_path / "runs")]
    events = ["--events", str(Path(run["artifacts"]["model"]).parents[1] / "download" / "raw")]
    users = tmp_path / "users.csv"
    users.write_text(
        "user,history,history_device,history_event,history_price\n"
        "new,B000000001|B000000002,phone|NA,view|cart,3|4\nA0000000000003,,,,\n"
    )
    assert main(["recommend", "--users", str(users), "--output", str(output), *given, *events]) == 0
    lists = pd.read_csv(output)
    assert lists.groupby("user").size().to_dict() == {"new": 5, "A0000000000003": 5}
    rows = tmp_path / "rows.csv"
    pd.read_csv(users).query("user == 'new'").assign(item="B000000003", device="computer").to_csv(rows, index=False)
    assert (
        main(["predict", run["artifacts"]["model"], "--input", str(rows), "--output", str(tmp_path / "out.csv")]) == 0
    )
    assert len(pd.read_csv(tmp_path / "out.csv")) == 1
