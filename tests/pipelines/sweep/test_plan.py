"""The file of a sweep, and the Katib Experiment that is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from components.errors import KfrecError
from pipelines.cli import main
from pipelines.sweep.plan import Dimension, load_plan

PLAN = """
model: din
parameters: {epochs: 2, train_seed: 1}
search:
  lr: {low: 0.0001, high: 0.01, log: true}
  embedding_dim: {low: 4, high: 16}
  global_batch_size: {choices: [256, 1024]}
trials: 12
parallel: 3
katib: {data: "gs://bucket/tfrecord", gpus: 0}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(PLAN)
    return path


def test_a_plan_is_read(file: Path) -> None:
    plan = load_plan(file)
    assert plan.dimensions["lr"] == Dimension(0.0001, 0.01, log=True)
    assert plan.dimensions["global_batch_size"].choices == (256, 1024)
    assert plan.metric.name == "auc"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("lr:", "lrr:", "search: lrr: unknown parameter lrr: did you mean lr?"),
        ("lr: {low", "synthetic_users: {low", "search: synthetic_users: is not a parameter of the training"),
        ("high: 0.01", "high: 0.00001", "search: lr: low 0.0001 is not below high 1e-05"),
        ("low: 0.0001", "low: 0.0", "search: lr: log needs a range above 0"),
        ("low: 4,", "low: 0,", "search: embedding_dim: parameter embedding_dim=0 must be at least 1"),
        ("{choices: [256, 1024]}", "{}", "search: global_batch_size: write either low and high, or choices"),
        ("{epochs: 2,", "{lr: 0.1,", "search: lr: is fixed under parameters, too"),
        ("trials: 12", "trials: 0", "trials: 0 must be at least 1"),
        ("trials: 12", "trails: 12", "unknown parameter trails: did you mean trials?"),
        ("lr:", "validation_share:", "search: validation_share: decides by which samples trials are judged"),
        ("low: 4,", "low: four,", "search: embedding_dim: low"),
    ],
)
def test_a_mistake_is_one_line(file: Path, before: str, after: str, told: str) -> None:
    file.write_text(PLAN.replace(before, after))
    with pytest.raises(KfrecError) as caught:
        load_plan(file)
    assert str(caught.value).startswith(f"{file}: {told}") and "\n" not in str(caught.value)


def test_the_experiment_searches_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(file), "--katib", "--registry", "registry.example.org/team"]) == 0
    made = yaml.safe_load(capsys.readouterr().out)
    spec = made["spec"]
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v1beta1", "Experiment")
    assert spec["objective"]["type"] == "maximize" and spec["objective"]["objectiveMetricName"] == "validation_auc"
    assert (spec["maxTrialCount"], spec["parallelTrialCount"]) == (12, 3)
    assert spec["parameters"] == [
        {"name": "lr", "parameterType": "double",
         "feasibleSpace": {"min": "0.0001", "max": "0.01", "distribution": "logUniform"}},
        {"name": "embedding_dim", "parameterType": "int", "feasibleSpace": {"min": "4", "max": "16"}},
        {"name": "global_batch_size", "parameterType": "categorical", "feasibleSpace": {"list": ["256", "1024"]}},
    ]  # fmt: skip


def test_the_experiments_trials_are_commands_that_the_worker_takes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every placeholder has its parameter, and with values in their places the worker's parser takes the words."""
    from components.train.worker import _parser

    assert main(["sweep", str(file), "--katib"]) == 0
    template = yaml.safe_load(capsys.readouterr().out)["spec"]["trialTemplate"]
    (container,) = template["trialSpec"]["spec"]["template"]["spec"]["containers"]
    assert container["name"] == template["primaryContainerName"] and "resources" not in container
    words = " ".join(container["command"][3:])
    for each in template["trialParameters"]:
        assert f"${{trialParameters.{each['name']}}}" in words
        words = words.replace(f"${{trialParameters.{each['name']}}}", "7")
    assert "${" not in words
    parsed = vars(_parser({"model_type": "din", "task": ""}).parse_args(words.split()))
    assert (parsed["epochs"], parsed["lr"], parsed["dataset_dir"]) == ("2", "7", "gs://bucket/tfrecord")


def test_the_collector_finds_the_metric_in_a_line_of_the_log(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import re

    from components.train.loop.log import TrainingLog

    assert main(["sweep", str(file), "--katib"]) == 0
    source = yaml.safe_load(capsys.readouterr().out)["spec"]["metricsCollectorSpec"]["source"]
    with TrainingLog(file.with_name("log.json")) as log:
        log.write([1], {"train_loss": 0.5, "validation_auc": 0.7512})
    (form,) = source["filter"]["metricsFormat"]
    assert ("validation_auc", "0.7512") in re.findall(form, file.with_name("log.json").read_text())


def test_an_experiment_needs_the_place_of_the_data(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(PLAN.replace('data: "gs://bucket/tfrecord", ', ""))
    assert main(["sweep", str(file), "--katib"]) == 2
    assert "katib has no data" in capsys.readouterr().err
