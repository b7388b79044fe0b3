from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from markupsafe import escape
from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion

from components.artifacts import adopt, open_artifact, publishing
from components.errors import KfrecError
from components.evaluate.step import run as evaluate
from components.register.documents import started_from
from components.register.registry import Registry
from components.register.step import run as register
from components.secrets import without_password
from components.steps.catalog import STEPS
from pipelines.defaults import Pipeline
from pipelines.runs.compare import compare
from pipelines.runs.record import FINISHED, RunRecord
from tests.fakes.small_shop import NAMES, ignorant, make_data, make_model, quality


def wrong(name: str) -> float:
    return 1 - quality(name)


@dataclass(frozen=True)
class Shop:
    """Data, models for it, and their evaluations; each test has a registered model of its own."""

    folder: Path
    data: Path

    def model(self, name: str, belief: Callable[[str], float], model_type: str = "sim") -> None:
        make_model(self.folder / name, self.data, belief=belief, model_type=model_type)
        parameters = STEPS["evaluate"].of(experiment="shop", run_id=name)
        evaluate(parameters, tfrecord=self.data, model=self.folder / name, evaluation=self.evaluation(name))

    def evaluation(self, name: str) -> Path:
        return self.folder / f"{name}-evaluation"

    def register(
        self, registered: str, name: str, run_id: str = "", require_baseline: bool = False, **changed: Any
    ) -> dict[str, Any]:
        parameters = STEPS["register"].of(
            registered_model=registered,
            experiment="shop",
            run_id=run_id or f"{registered}-{name}",
            require_baseline=require_baseline,
            **changed,
        )
        out = self.folder / f"{registered}-registration"
        folders = dict(tfrecord=self.data, model=self.folder / name, evaluation=self.evaluation(name))
        assert register(parameters, **folders, registration=out)["models"] == 1
        return json.loads((out / "registration.json").read_text())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Shop:
    folder = tmp_path_factory.mktemp("shop")
    made = Shop(folder, make_data(folder / "tfrecord", rows=1500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        for name, belief in (("good", quality), ("fair", ignorant), ("bad", wrong)):
            made.model(name, belief)
    return made


def alias(store: str, registered: str, name: str) -> int | None:
    found = MlflowClient(store, registry_uri=store).get_registered_model(registered).aliases.get(name)
    return int(found) if found else None


def files_of(store: str, registered: str) -> Path:
    """The champion's files."""
    champion = mlflow.models.get_model_info(f"models:/{registered}@champion")
    location = MlflowClient(store).get_logged_model(champion.model_id).artifact_location
    return Path(location.removeprefix("file://")) / "artifacts"


def with_score(shop: Shop, folder: Path, value: str) -> Shop:
    """A copy with another score of the model good."""
    mine = Shop(folder, shop.data)
    shutil.copytree(shop.folder / "good", folder / "good")
    earlier = open_artifact(shop.evaluation("good"))
    body = json.loads(earlier.file("metrics.json").read_text())
    inputs = {"tfrecord": open_artifact(shop.data), "model": open_artifact(folder / "good")}
    with publishing(mine.evaluation("good"), step="evaluate", inputs=inputs, parameters=earlier.parameters) as staging:
        shutil.copyfile(earlier.file("predictions.parquet"), staging.path / "predictions.parquet")
        text = json.dumps({**body, "test_auc": "VALUE"}).replace('"VALUE"', value)
        (staging.path / "metrics.json").write_text(text)
        staging.rows["test"] = 1500
    return mine


def test_a_first_good_model_becomes_the_champion(shop: Shop, store: str) -> None:
    result = shop.register("first", "good")
    assert (result["version"], result["alias"], result["champion_version_before"]) == (1, "champion", None)
    assert alias(store, "first", "champion") == 1


def test_a_first_bad_model_does_not(shop: Shop, store: str) -> None:
    result = shop.register("first_bad", "bad")
    assert result["alias"] == "challenger"
    assert alias(store, "first_bad", "champion") is None
    assert alias(store, "first_bad", "challenger") == 1


def test_a_model_that_does_not_beat_the_baseline_is_not_promoted_and_the_reason_says_so(shop: Shop, store: str) -> None:
    """The counts of the baseline tell more of every item than this model, which knows every second one."""
    result = shop.register("required", "fair", require_baseline=True)
    assert (result["alias"], alias(store, "required", "champion")) == ("challenger", None)
    assert "There is no champion, but the model does not beat the built-in baseline: test AUC 0." in result["reason"]
    assert shop.register("not_required", "fair")["alias"] == "champion"


def test_a_model_that_is_a_baseline_itself_need_not_beat_the_built_in_one(shop: Shop, store: str) -> None:
    shop.model("itself", ignorant, "popularity")
    assert shop.register("itself", "itself", require_baseline=True)["alias"] == "champion"


def test_a_baseline_itself_has_to_be_above_guessing(shop: Shop, store: str) -> None:
    shop.model("guesses", wrong, "popularity")
    result = shop.register("guessing", "guesses", require_baseline=True, auc_floor=0.5)
    assert result["alias"] == "challenger" and result["positives"] > 10
    assert result["reason"].count("not above") == 2 and "that of guessing, 0.5000." in result["reason"]
    assert "baseline" not in result["reason"]


def test_a_model_that_was_damaged_after_its_evaluation_is_not_registered(
    shop: Shop, store: str, tmp_path: Path
) -> None:
    mine = Shop(shutil.copytree(shop.folder, tmp_path / "shop"), tmp_path / "shop" / "tfrecord")
    weights = next((mine.folder / "good" / "saved_model" / "variables").glob("*.data-*"))
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(KfrecError, match=rf"{weights.name}: checksum differs"):
        mine.register("damaged", "good")
    assert not MlflowClient(store).search_model_versions("name = 'damaged'")


def test_a_better_model_takes_over(shop: Shop, store: str) -> None:
    shop.register("better", "fair")
    result = shop.register("better", "good")
    assert (result["version"], result["alias"], result["champion_version_before"]) == (2, "champion", 1)
    assert result["score"] - result["champion_score"] == pytest.approx(result["difference"])
    assert 0 < result["confidence_interval"][0] < result["difference"] < result["confidence_interval"][1]
    assert alias(store, "better", "champion") == 2


def test_the_decision_has_a_page_with_the_curves_of_both(shop: Shop, store: str) -> None:
    first = shop.register("paged", "fair")
    page = shop.folder / "paged-registration" / "decision.html"
    assert "Version 1 is the champion" in page.read_text() and "ROC curves" not in page.read_text()
    assert "no earlier model" in page.read_text() and "Earlier versions" not in page.read_text()
    second = shop.register("paged", "good")
    told = page.read_text()
    assert "Version 2 is the champion" in told and str(escape(second["reason"])) in told
    assert ">champion</span>" in told and "What is gained" in told and first["reason"] not in told
    assert f", {second['positives']} positives" in told
    assert "Earlier versions" in told and f"{first['score']:.4f}" in told.partition("Earlier versions")[2]
    assert "nan" not in re.sub(r">[^<]*<", "><", told)
    artifacts = MlflowClient(store).list_artifacts(second["run_id"], "registration")
    assert [found.path for found in artifacts] == [
        "registration/card.md", "registration/decision.html", "registration/registration.json",
    ]  # fmt: skip


def test_the_page_names_the_model_that_a_training_started_from() -> None:
    assert started_from({"warm_start_path": "s3://user:secret@shop/model", "continue_path": ""}) == {
        "weights from": without_password("s3://user:secret@shop/model")
    }
    assert started_from({"continue_path": "runs/a/model"}) == {"weights and moments from": "runs/a/model"}


def test_a_worse_model_stays_a_challenger(shop: Shop, store: str) -> None:
    shop.register("worse", "good")
    assert shop.register("worse", "fair")["alias"] == "challenger"
    assert (alias(store, "worse", "champion"), alias(store, "worse", "challenger")) == (1, 2)


def test_a_margin_that_is_not_reached_keeps_the_champion(shop: Shop, store: str) -> None:
    shop.register("margin", "fair")
    assert "below the margin of 0.9" in shop.register("margin", "good", promotion_margin=0.9)["reason"]
    assert alias(store, "margin", "champion") == 1


def test_a_model_is_registered_in_the_default_database(
    shop: Shop, tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_database, tmp_path / "runs" / "mlflow.db")
    assert shop.register("by_default", "good")["alias"] == "champion"
    assert alias(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}", "by_default", "champion") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize("name", ["a/b", "a:b", "shop's", 'the "shop"'])
def test_a_name_that_mlflow_cannot_take_is_refused_before_the_upload(name: str, shop: Shop, store: str) -> None:
    with pytest.raises(KfrecError, match="MLflow's names have no / and no :, and kfrec's no quotes"):
        shop.register(name, "good", run_id="refused name")


def test_the_same_run_registers_the_same_model_once(shop: Shop, store: str) -> None:
    first = shop.register("again", "good", run_id="again")
    assert shop.register("again", "good", run_id="again") == first
    assert alias(store, "again", "champion") == 1
    assert len(MlflowClient(store, registry_uri=store).search_model_versions("name = 'again'")) == 1


def test_another_run_registers_the_same_model_no_second_time(shop: Shop, store: str) -> None:
    first = shop.register("twice", "good", run_id="one")
    second = shop.register("twice", "good", run_id="two")
    assert (second["version"], second["alias"], second["reason"]) == (1, "champion", first["reason"])
    assert second["run_id"] != first["run_id"]
    assert len(MlflowClient(store, registry_uri=store).search_model_versions("name = 'twice'")) == 1


def test_a_step_that_was_killed_after_the_upload_is_not_taken_for_finished(
    shop: Shop, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = MlflowClient(store)
    seen: list[str] = []

    def look(registry: Registry, version: ModelVersion) -> None:
        seen.append(client.get_run(registry.run.id).info.status)

    monkeypatch.setattr(Registry, "decision", look)
    shop.register("status", "good")
    assert set(seen) == {"RUNNING"}


@pytest.mark.slow
def test_a_run_that_is_repeated_after_another_champion_is_judged_against_that_one(shop: Shop, store: str) -> None:
    shop.register("late", "fair", run_id="early")
    shop.register("late", "good", run_id="late")
    repeated = shop.register("late", "fair", run_id="early")
    assert (repeated["version"], repeated["alias"], repeated["champion_version_before"]) == (1, "challenger", 2)
    assert alias(store, "late", "champion") == 2


@pytest.mark.slow
def test_a_decision_is_made_again_with_other_parameters_of_the_gate(shop: Shop, store: str) -> None:
    shop.register("regate", "fair")
    assert shop.register("regate", "good", promotion_margin=0.9)["alias"] == "challenger"
    result = shop.register("regate", "good")
    assert (result["version"], result["alias"]) == (2, "champion")
    assert alias(store, "regate", "champion") == 2 and alias(store, "regate", "challenger") is None


@pytest.mark.slow
def test_a_decision_is_made_again_from_another_evaluation(shop: Shop, store: str, tmp_path: Path) -> None:
    shop.register("reevaluated", "bad", auc_floor=0)
    shop.register("reevaluated", "fair", promotion_margin=0.9)
    other = make_data(tmp_path / "other", rows=800)
    mine = Shop(tmp_path, other)
    shutil.copytree(shop.folder / "fair", tmp_path / "fair")
    parameters = STEPS["evaluate"].of(experiment="shop", run_id="reevaluated")
    evaluate(parameters, tfrecord=other, model=tmp_path / "fair", evaluation=mine.evaluation("fair"))
    result = mine.register("reevaluated", "fair", promotion_margin=0.9)
    metrics = json.loads((mine.evaluation("fair") / "metrics.json").read_text())
    assert (result["version"], result["score"]) == (2, metrics["test_auc"])


@pytest.mark.slow
def test_nothing_is_decided_about_a_model_that_a_user_made_champion(shop: Shop, store: str) -> None:
    shop.register("by_hand", "good")
    lost = shop.register("by_hand", "fair")
    client = MlflowClient(store, registry_uri=store)
    client.delete_registered_model_alias("by_hand", "challenger")
    client.set_registered_model_alias("by_hand", "champion", "2")
    result = shop.register("by_hand", "fair")
    assert (result["alias"], alias(store, "by_hand", "challenger")) == ("champion", None)
    assert result["reason"].startswith("It is the champion already") and result["reason"].endswith(lost["reason"])


def test_the_champion_loads_and_predicts_its_own_example(shop: Shop, store: str) -> None:
    shop.register("loads", "good")
    champion = mlflow.pyfunc.load_model("models:/loads@champion")
    example = champion.input_example
    found = champion.predict(example)["probability"]
    expected = [quality(NAMES[item - 3]) for item in example["item_trgt"]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_signature_describes_the_features(shop: Shop, store: str) -> None:
    shop.register("signature", "good")
    signature = mlflow.models.get_model_info("models:/signature@champion").signature
    assert {spec.name: (str(spec.type), spec.shape) for spec in signature.inputs} == {
        "uid": ("int64", (-1,)),
        "item_trgt": ("int64", (-1,)),
        "item_pos": ("int64", (-1, 6)),
    }
    assert [spec.name for spec in signature.outputs] == ["probability"]


@pytest.mark.slow
def test_a_champion_of_older_data_is_scored_on_the_newer_test_set(shop: Shop, store: str, tmp_path: Path) -> None:
    shop.register("newer", "good")
    names = ("C000", *reversed(NAMES))
    newer = Shop(tmp_path, make_data(tmp_path / "tfrecord", rows=1500, names=names, seed=1))
    make_model(tmp_path / "fair", newer.data, names, belief=lambda n: ignorant(n) if n in NAMES else 0.5)
    evaluate(
        STEPS["evaluate"].of(experiment="shop", run_id="newer"),
        tfrecord=newer.data,
        model=tmp_path / "fair",
        evaluation=newer.evaluation("fair"),
    )
    result = newer.register("newer", "fair")
    assert result["champion_score"] > result["score"] > 0.5
    assert alias(store, "newer", "champion") == 1


@pytest.mark.slow
def test_a_champion_that_cannot_be_compared_stays_and_the_reason_says_why(
    shop: Shop, store: str, tmp_path: Path
) -> None:
    shop.register("other", "good")
    other = Shop(tmp_path, make_data(tmp_path / "tfrecord", vocabulary=False))
    other.model("good", quality)
    result = other.register("other", "good")
    assert result["alias"] == "challenger"
    assert "Champion version 1 cannot be scored on this test set" in result["reason"]
    assert "has no vocabulary of item" in result["reason"]
    assert alias(store, "other", "champion") == 1


def test_a_champion_whose_files_are_gone_stays_and_the_reason_says_so(shop: Shop, store: str) -> None:
    shop.register("gone", "fair")
    shutil.rmtree(files_of(store, "gone"))
    reason = shop.register("gone", "good")["reason"]
    assert "its files are gone" in reason and "promote this version with kfrec promote" in reason
    assert (alias(store, "gone", "champion"), alias(store, "gone", "challenger")) == (1, 2)


@pytest.mark.slow
def test_a_champion_that_returns_nan_stays_and_the_reason_says_how_to_replace_it(
    shop: Shop, store: str, tmp_path: Path
) -> None:
    shop.register("nan", "fair")
    files = files_of(store, "nan")
    make_model(tmp_path / "broken", shop.data, belief=lambda name: float("nan"))
    shutil.rmtree(files / "saved_model")
    shutil.copytree(tmp_path / "broken" / "saved_model", files / "saved_model")
    reason = shop.register("nan", "good")["reason"]
    assert "it returns scores that are not finite numbers" in reason and "promote this version" in reason
    assert (alias(store, "nan", "champion"), alias(store, "nan", "challenger")) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "width", "why"),
    [
        ("score", 0, "it returns score and no probability, as a model of another kfrec or task"),
        ("probability", 2, r"its output probability has the shape \[2\] a sample, and this model's has \[\]"),
    ],
)
def test_a_champion_with_other_outputs_stays_and_the_reason_says_so(
    shop: Shop, store: str, tmp_path: Path, output: str, width: int, why: str
) -> None:
    name = f"outputs {output} {width}"
    shop.register(name, "fair")
    files = files_of(store, name)
    make_model(tmp_path / "other", shop.data, output=output, width=width)
    shutil.rmtree(files / "saved_model")
    shutil.copytree(tmp_path / "other" / "saved_model", files / "saved_model")
    assert re.search(f"{why}; to replace that champion", shop.register(name, "good")["reason"])
    assert (alias(store, name, "champion"), alias(store, name, "challenger")) == (1, 2)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null", "true", '"0.9"'])
def test_a_score_that_is_no_finite_number_is_refused_before_anything_is_registered(
    shop: Shop, store: str, tmp_path: Path, value: str
) -> None:
    mine = with_score(shop, tmp_path, value)
    with pytest.raises(KfrecError, match=r"metrics.json: test_auc is .*, not a finite number, so the model is not"):
        mine.register("unscored", "good")
    assert not MlflowClient(store).search_model_versions("name = 'unscored'")


def test_a_whole_number_is_a_score(shop: Shop, store: str, tmp_path: Path) -> None:
    result = with_score(shop, tmp_path, "1").register("whole", "good")
    assert (result["score"], result["alias"]) == (1.0, "champion")


@pytest.mark.slow
@pytest.mark.parametrize("is_older", [False, True], ids=["tagged", "by its MLflow run"])
def test_a_champion_of_another_task_stays_and_the_reason_says_so(shop: Shop, store: str, is_older: bool) -> None:
    name, client = f"task {is_older}", MlflowClient(store)
    shop.register(name, "fair")
    assert client.get_model_version(name, "1").tags["kfrec.task"] == "click"
    if is_older:
        client.delete_model_version_tag(name, "1", "kfrec.task")
        run = client.create_run(client.get_experiment_by_name("shop").experiment_id)
        client.log_param(run.info.run_id, "register.task", "seconds")
        files = str(client.get_model_version(name, "1").source)
        client.delete_model_version(name, "1")
        client.create_model_version(name, files, run.info.run_id)
        client.set_registered_model_alias(name, "champion", "2")
    else:
        client.set_model_version_tag(name, "1", "kfrec.task", "seconds")
    champion = alias(store, name, "champion")
    result = shop.register(name, "good")
    assert result["alias"] == "challenger" and alias(store, name, "champion") == champion
    assert (
        "its task is seconds and this model's is click, so register this model under another name" in result["reason"]
    )


def test_kfrec_compare_prints_the_difference_of_the_gate(shop: Shop, store: str) -> None:
    shop.register("compared", "fair")
    decided = shop.register("compared", "good")
    good, fair = (
        RunRecord(
            shop.folder,
            Pipeline(model="din"),
            {},
            "",
            started=1.0,
            steps={
                "tfrecord": {"outputs": {"tfrecord": str(shop.data)}},
                "evaluate": {"outputs": {"evaluation": str(shop.evaluation(name))}},
            },
            state=FINISHED,
        )
        for name in ("good", "fair")
    )
    chance = compare(good, fair).chance
    assert chance.difference is not None
    assert [chance.difference.low, chance.difference.high] == decided["confidence_interval"]
    printed = chance.verdict[chance.verdict.index(" samples: ") : chance.verdict.index(")")]
    assert " better by " in printed and printed in decided["reason"]


def test_a_registration_that_fails_half_way_leaves_the_champion_and_can_be_repeated(
    shop: Shop, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.register("half", "fair")

    def interrupted(*_: object) -> None:
        raise ConnectionResetError("the network went away")

    with monkeypatch.context() as patch, pytest.raises(ConnectionResetError):
        patch.setattr("components.register.comparison.download_version", interrupted)
        shop.register("half", "good")
    assert alias(store, "half", "champion") == 1
    assert alias(store, "half", "challenger") is None
    assert shop.register("half", "good")["version"] == 2
    assert alias(store, "half", "champion") == 2


def test_an_evaluation_of_another_model_is_refused(shop: Shop, store: str, tmp_path: Path) -> None:
    shutil.copytree(shop.evaluation("good"), tmp_path / "evaluation")
    folders = dict(tfrecord=shop.data, model=shop.folder / "fair", evaluation=tmp_path / "evaluation")
    with pytest.raises(KfrecError, match=r"not an evaluation of model .*/fair; run the evaluate step again"):
        register(STEPS["register"].of(experiment="shop"), **folders, registration=tmp_path / "registration")


def test_an_evaluation_that_someone_else_wrote_is_refused(shop: Shop, store: str, tmp_path: Path) -> None:
    shutil.copytree(shop.evaluation("good"), tmp_path / "evaluation")
    adopt(tmp_path / "evaluation")
    folders = dict(tfrecord=shop.data, model=shop.folder / "good", evaluation=tmp_path / "evaluation")
    with pytest.raises(KfrecError, match="not an evaluation of tfrecord"):
        register(STEPS["register"].of(experiment="shop"), **folders, registration=tmp_path / "registration")


def test_the_mlflow_run_says_what_was_decided(shop: Shop, store: str) -> None:
    shop.register("tagged", "good")
    run = MlflowClient(store).get_run(shop.register("tagged", "good")["run_id"])
    assert (run.data.tags["kfrec.version"], run.data.tags["kfrec.alias"]) == ("1", "champion")
    assert run.info.status == "FINISHED"


def test_registering_says_nothing_of_mlflows_own(shop: Shop, store: str, capfd: pytest.CaptureFixture[str]) -> None:
    shop.register("quiet", "fair")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.slow
def test_loading_a_model_says_nothing_of_mlflows_own() -> None:
    """In a process of its own: MLflow sets pytest's filters aside, and warns once a process."""
    command = [sys.executable, "-c", "import components.register.served"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""
