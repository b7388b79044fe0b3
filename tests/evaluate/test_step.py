import json
import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from components.artifacts import adopt, open_artifact
from components.checks.profile import Column, Finding, Profile, Table
from components.errors import KfrecError
from components.evaluate.step import run
from components.feature_spec import load_feature_spec
from components.feature_spec.values import read_values
from components.records import Records
from components.steps.catalog import STEPS
from components.steps.command import command
from tests.binary import binary_scores
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.small_shop import NAMES, make_data, make_model, quality


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord")
    return data, make_model(folder / "model", data)


@pytest.fixture(scope="module")
def evaluation(shop: tuple[Path, Path], database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated") / "evaluation"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        parameters = STEPS["evaluate"].of(evaluation_batch_size=100, experiment="evaluated", run_id="pipeline-1")
        assert run(parameters, tfrecord=shop[0], model=shop[1], evaluation=folder)["test"] == 600
    return folder


def test_metrics_are_those_of_the_predictions(evaluation: Path) -> None:
    metrics = json.loads((evaluation / "metrics.json").read_text())
    table = pq.read_table(evaluation / "predictions.parquet")
    labels, scores = table["label"].to_numpy(), table["probability"].to_numpy().astype(float)
    assert metrics["test_auc"] == pytest.approx(roc_auc_score(labels, scores))
    assert metrics["test_logloss"] == pytest.approx(log_loss(labels, scores))
    assert metrics["test_pr_auc"] == pytest.approx(average_precision_score(labels, scores))
    assert metrics["test_rows"] == len(labels) == 600


def test_predictions_name_users_and_candidates_as_the_raw_data_do(evaluation: Path, shop: tuple[Path, Path]) -> None:
    spec = load_feature_spec(shop[0])
    table = pq.read_table(evaluation / "predictions.parquet")
    read = Records(spec, "test", ["item_trgt"])
    ids = np.concatenate([batch["item_trgt"] for batch in read.batches(97)])
    vocabulary = spec.vocabulary_of("item_trgt")
    assert vocabulary is not None
    known, values = read_values(spec, vocabulary)
    names = dict(zip(known.tolist(), values.to_pylist(), strict=True))
    assert table["item_trgt"].to_pylist() == [names.get(each) for each in ids.tolist()]
    assert table["item_trgt"].null_count < len(table)


def test_the_confidence_interval_surrounds_the_auc(evaluation: Path) -> None:
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert metrics["test_auc_low"] < metrics["test_auc"] < metrics["test_auc_high"]


def test_what_the_score_rests_on_is_measured_on_the_same_samples(evaluation: Path) -> None:
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert metrics["test_controls_rows"] == 600
    assert metrics["test_controls_auc"] == metrics["test_auc"]
    assert metrics["test_auc_above_unknown_user"] == metrics["test_auc_above_empty_history"] == 0  # it reads the item
    difference = metrics["test_auc"] - metrics["test_baseline_auc"]
    assert metrics["test_auc_above_baseline"] == pytest.approx(difference)
    assert metrics["test_auc_above_baseline_low"] < difference < metrics["test_auc_above_baseline_high"]


def test_a_model_that_does_not_beat_the_baseline_is_named_in_the_summary(
    shop: tuple[Path, Path], store: str, tmp_path: Path
) -> None:
    model = make_model(tmp_path / "model", shop[0], belief=lambda name: 1 - quality(name))
    parameters = STEPS["evaluate"].of(experiment="below", run_id="below")
    counts = run(parameters, tfrecord=shop[0], model=model, evaluation=tmp_path / "evaluation")
    assert "; the model does not beat the built-in baseline: test AUC 0." in counts["summary"]
    assert (
        " positives; the test AUC 0." in counts["summary"] and "not above that of guessing, 0.5000" in counts["summary"]
    )


def test_the_best_possible_value_is_shown_where_the_data_know_it(
    shop: tuple[Path, Path], store: str, tmp_path: Path
) -> None:
    data = shutil.copytree(shop[0], tmp_path / "tfrecord")
    spec = load_feature_spec(data)
    known = replace(spec, metadata={**spec.metadata, "encoding": {"best": {"auc": 0.8125, "other": 1}}})
    (data / "feature_spec.yaml").write_text(known.to_yaml())
    adopt(data)
    parameters = STEPS["evaluate"].of(experiment="best", run_id="best")
    run(parameters, tfrecord=data, model=shop[1], evaluation=tmp_path / "evaluation")
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert {name: value for name, value in metrics.items() if "best" in name} == {"test_best_auc": 0.8125}
    assert "the best possible" in (tmp_path / "evaluation" / "report.html").read_text()


def test_the_report_says_which_last_events_do_not_test(shop: tuple[Path, Path], store: str, tmp_path: Path) -> None:
    data = shutil.copytree(shop[0], tmp_path / "tfrecord")
    spec = load_feature_spec(data)
    left_out = {"first_event": 0, "seen_item": 3, "unknown_item": 1052}
    known = replace(spec, metadata={**spec.metadata, "encoding": {"left_out": left_out}})
    (data / "feature_spec.yaml").write_text(known.to_yaml())
    adopt(data)
    parameters = STEPS["evaluate"].of(experiment="left_out", run_id="left_out", control_samples=0)
    run(parameters, tfrecord=data, model=shop[1], evaluation=tmp_path / "evaluation")
    report = (tmp_path / "evaluation" / "report.html").read_text()
    for text in ("left out of the test, seen item", "left out of the test, unknown item", "1,052 last events of users"):
        assert text in report
    assert "first event" not in report


def test_the_buckets_of_history_length_hold_every_sample(evaluation: Path) -> None:
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert sum(bucket["rows"] for bucket in metrics["by_history_length"]) == 600


def test_the_manifest_knows_data_and_model(evaluation: Path, shop: tuple[Path, Path]) -> None:
    inputs = {"tfrecord": open_artifact(shop[0]).digest, "model": open_artifact(shop[1]).digest}
    assert open_artifact(evaluation).inputs == inputs


def test_metrics_and_report_are_in_mlflow(evaluation: Path, database: Path) -> None:
    client = MlflowClient(f"sqlite:///{database}")
    experiment = client.get_experiment_by_name("evaluated")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert run.data.metrics["test_auc"] == metrics["test_auc"]
    points = client.get_metric_history(run.info.run_id, "auc_by_popularity/auc")
    groups = [(group["to"], group["auc"]) for group in metrics["by_popularity"]]
    assert sorted((point.step, point.value) for point in points) == groups
    assert [f.path for f in client.list_artifacts(run.info.run_id, "evaluation")] == [
        "evaluation/metrics.json",
        "evaluation/report.html",
    ]


def test_the_data_checks_are_in_report_and_mlflow(shop: tuple[Path, Path], store: str, tmp_path: Path) -> None:
    data = shutil.copytree(shop[0], tmp_path / "tfrecord")
    columns = {"asin": Column("category", 0.0, (0.5, 0.5), categories=("<i1>",))}
    findings = (Finding("psi", "reviews", "asin", 0.3, 0.25, "warned"), Finding("psi", "x", "<y>", 0.0, 0.25, "passed"))
    Profile("amazon_reviews", {"reviews": Table(1234, 1, 0.0, columns)}, findings, True).write(data)
    adopt(data)
    parameters = STEPS["evaluate"].of(experiment="checked", run_id="checked")
    run(parameters, tfrecord=data, model=shop[1], evaluation=tmp_path / "evaluation")
    report = (tmp_path / "evaluation" / "report.html").read_text()
    assert "2 checks against the reference, 1 above their limits." in report
    assert "<td>reviews</td><td>1,234</td>" in report and "<y>" not in report
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("checked")
    assert experiment is not None
    (tracked,) = client.search_runs([experiment.experiment_id])
    assert (tracked.data.metrics["data.rows.reviews"], tracked.data.metrics["data.psi.reviews.asin"]) == (1234, 0.3)
    assert tracked.data.tags["kfrec.data_checks"] == "1 above their limits: psi reviews asin"
    assert [f.path for f in client.list_artifacts(tracked.info.run_id, "data")] == ["data/profile.json"]


class _Balanced(HTMLParser):
    """Follows the open elements of a document and keeps what each refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def report(evaluation: Path) -> str:
    return (evaluation / "report.html").read_text()


def test_the_report_is_one_file_without_scripts_or_links(report: str) -> None:
    page = _Balanced()
    page.feed(report)
    assert not page.open
    assert "svg" in page.tags
    assert "script" not in page.tags
    assert page.references == []
    assert "url(" not in report


def test_the_report_shows_the_headline_the_charts_and_where_it_came_from(
    report: str, evaluation: Path, shop: tuple[Path, Path]
) -> None:
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert f"Test AUC {metrics['test_auc']:.4f}" in report
    titles = re.findall(r"<figure[^>]*><h3>([A-Za-z ]+)", report)
    assert titles == [
        "AUC of the model and of its controls",
        "What they mean",
        "AUC by epoch",
        "Loss by epoch",
        "ROC curve",
        "Precision and recall",
        "AUC by length of history",
        "AUC by popularity of the candidate",
        "Calibration",
        "Scores of each class",
    ]
    assert open_artifact(shop[1]).digest in report


def test_the_report_shows_epochs_on_validation_samples_and_marks_the_exported_one(report: str) -> None:
    section = report[report.index("AUC by epoch") : report.index("ROC curve")]
    assert "validation: epoch 2, AUC 0.7400" in section and "test:" not in section
    assert section.count('class="line rule"') == 2 and section.count("exported") == 2  # in the legend of both charts
    assert "Epoch 2 of 3 is the best: validation AUC 0.7400; exported. The test split was not read." in report


def test_every_coordinate_of_the_charts_is_a_number(report: str) -> None:
    assert "nan" not in re.sub(r">[^<]*<", "><", report)
    points = [float(number) for path in re.findall(r'points="([^"]*)"', report) for number in re.split("[ ,]", path)]
    assert len(points) > 400
    assert all(math.isfinite(point) for point in points)


def test_text_from_outside_is_escaped(shop: tuple[Path, Path], store: str, tmp_path: Path) -> None:
    parameters = STEPS["evaluate"].of(experiment="escaped", run_id="<script>alert(1)</script>")
    run(parameters, tfrecord=shop[0], model=shop[1], evaluation=tmp_path / "evaluation")
    assert "<script" not in (tmp_path / "evaluation" / "report.html").read_text()


def test_a_test_split_of_one_class_is_one_line_and_leaves_the_earlier_evaluation(
    shop: tuple[Path, Path], store: str, evaluation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data(tmp_path / "tfrecord", rows=30, label=1)
    before = open_artifact(evaluation)
    folders = ["--tfrecord", str(data), "--model", str(shop[1]), "--evaluation", str(evaluation)]
    assert command("evaluate", [*folders, "--experiment", "one class"]) == 2
    assert "all 30 test samples have label 1, so nothing can be ranked" in capsys.readouterr().err
    assert open_artifact(evaluation) == before


def test_a_failed_evaluation_is_failed_in_mlflow(shop: tuple[Path, Path], store: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=0)
    parameters = STEPS["evaluate"].of(experiment="empty", run_id="p")
    with pytest.raises(KfrecError, match="split test has no samples"):
        run(parameters, tfrecord=data, model=shop[1], evaluation=tmp_path / "evaluation")
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("empty")
    assert experiment is not None
    assert [r.info.status for r in client.search_runs([experiment.experiment_id])] == ["FAILED"]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Records of a data set that encodes raw rows and counts its negatives, and a model that knows one item."""
    folder = tmp_path_factory.mktemp("counted")
    data = make_data(folder / "tfrecord", dataset="amazon_reviews")
    add_counts(data, {name: 1 + place for place, name in enumerate(NAMES)})
    return data, make_known_model(folder / "model", data, {"B007": 3.0})


def test_all_items_are_ranked_in_metrics_report_and_mlflow(
    counted: tuple[Path, Path], store: str, tmp_path: Path
) -> None:
    parameters = STEPS["evaluate"].of(experiment="ranked", catalogue_users=40, catalogue_top=7)
    run(parameters, tfrecord=counted[0], model=counted[1], evaluation=tmp_path / "evaluation")
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert metrics["test_catalogue_users"] == 40 and metrics["test_catalogue_items"] == 60
    assert metrics["test_recall_at_70_low"] <= metrics["test_recall_at_70"] <= metrics["test_recall_at_70_high"]
    assert len(metrics["catalogue"].pop("examples")) == 10
    assert metrics["catalogue"] == {"top": 7, "by": "likelihood", "note": "", "keeps_seen": False}
    report = (tmp_path / "evaluation" / "report.html").read_text()
    assert "All items ranked" in report and f"{metrics['test_recall_at_70']:.3f} <span>(" in report
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("ranked")
    assert experiment is not None
    (tracked,) = client.search_runs([experiment.experiment_id])
    assert tracked.data.metrics["test_ndcg_at_7_above_popularity"] == metrics["test_ndcg_at_7_above_popularity"]


def test_no_items_are_ranked_without_users(counted: tuple[Path, Path], store: str, tmp_path: Path) -> None:
    parameters = STEPS["evaluate"].of(experiment="not ranked", catalogue_users=0)
    run(parameters, tfrecord=counted[0], model=counted[1], evaluation=tmp_path / "evaluation")
    assert "catalogue" not in json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert "All items ranked" not in (tmp_path / "evaluation" / "report.html").read_text()


def test_where_no_items_can_be_ranked_the_step_says_why(
    shop: tuple[Path, Path], store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(STEPS["evaluate"].of(experiment="why"), tfrecord=shop[0], model=shop[1], evaluation=tmp_path / "evaluation")
    assert "no ranking of all items: " in capsys.readouterr().out


def test_data_without_users_or_histories_is_evaluated_too() -> None:
    from components.tasks.click.measure import measure

    random = np.random.default_rng(0)
    probabilities = random.random(200, dtype=np.float32)
    labels = (random.random(200) < probabilities).astype(np.int8)
    metrics = measure(binary_scores(labels, probabilities), None).metrics
    assert "test_grouped_auc" not in metrics
    assert not [name for name in metrics if name.startswith("by_")]
