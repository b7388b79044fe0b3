"""What is wrong with a package is one line that names the package, the attribute and the remedy."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.download import step as download
from components.errors import KfrecError
from components.evaluate.step import measured_by
from components.feature_spec import Feature, FeatureSpec
from components.metrics import Interval
from components.models import LossTerm
from components.models.model import Table, loss_terms_of, require_interface
from components.preprocess import step as preprocess
from components.steps.catalog import STEPS
from components.tasks import Kept, Measured, Scores, difference_of, missing_column
from components.train.export import export
from pipelines.cli import main
from tests.pipelines.installed import edit, installed


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with installed("regression", tmp_path / "site", monkeypatch) as folder:
        yield folder


@pytest.mark.parametrize(
    ("file", "text", "other", "told"),
    [
        ("definition.py", "import annotations\n", "import annotations\nimport absent\n",
         "cannot be imported: ModuleNotFoundError: No module named 'absent', at .*definition.py:4"),
        ("definition.py", "Model, ModelDefinition", "Model, ModelDefinitions",
         "cannot be imported: ImportError: cannot import name 'ModelDefinitions'.*; install what it needs, or correct"),
        ("definition.py", "    build=_build,\n", "",
         "cannot be imported: TypeError: .*missing 1 required positional argument: 'build', at .*definition.py:"),
        ("__init__.py", "import MODEL\n", "import _build as MODEL\n", "it is a function, not a ModelDefinition;"),
        ("definition.py", 'name="trip_time"', 'name="trip"', "ModelDefinition.name is 'trip', and its entry point"),
    ],
)  # fmt: skip
def test_a_broken_model(file: str, text: str, other: str, told: str, package: Path) -> None:
    edit(package / file, text, other)
    with pytest.raises(KfrecError, match=rf"^the model trip_time of trips 0.1.0 \(trips:MODEL\):? .*{told}") as error:
        registry.model("trip_time")
    assert "\n" not in str(error.value)


def test_counts_without_a_split(package: Path, tmp_path: Path) -> None:
    edit(package / "dataset.py", "    return counts\n", "    return {'train': 1}\n")
    download.run(STEPS["download"].of(dataset="trips", synthetic_trips=20), raw=tmp_path / "raw")
    with pytest.raises(
        KfrecError, match=r"data set trips: preprocess returns {'train': 1}; return counts by name, train"
    ):
        preprocess.run(STEPS["preprocess"].of(dataset="trips"), raw=tmp_path / "raw", parquet=tmp_path / "parquet")


def test_one_broken_package_does_not_hide_the_others(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(package / "definition.py", 'name="trip_time"', 'name="trip"')
    assert main(["models"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "broken: the model trip_time of trips 0.1.0" in lines["trip_time"] and "broken" not in lines["sim"]


def test_a_name_of_two_packages_hides_no_other(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted = tmp_path / "site" / "other-1.0.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0.0\n")
    (noted / "entry_points.txt").write_text("[kfrec.models]\ntrip_time = other:MODEL\n")
    assert main(["models"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "trips 0.1.0 (trips:MODEL)" in lines["trip_time"] and "other 1.0.0 (other:MODEL)" in lines["trip_time"]
    assert "broken" not in lines["sim"]


def test_a_package_beside_the_working_directory_stays_known_in_another_one(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(package / "definition.py", 'name="trip_time"', 'name="trip"')
    monkeypatch.chdir(tmp_path / "site")
    monkeypatch.setattr("sys.path", ["", *sys.path])
    assert "trip_time" in registry.names(registry.MODELS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KfrecError, match=r"^the model trip_time of trips 0.1.0 "):
        registry.model("trip_time")


SPEC = FeatureSpec({"zone": Feature("zone", "int64", 3)}, {}, {"zone": ("zone",)})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tables": None}, "model m: build returns a types.SimpleNamespace, which has no tables; derive it from"),
        ({"serving_features": ("zones",)}, "serving_features has 'zones', which is no feature of the data; name"),
        ({"tables": {"zone": np.zeros(3)}}, r"tables has a ndarray of shape \(3,\) as zone; make it a Table"),
    ],
)
def test_a_model_that_lacks_an_attribute(changes: dict[str, Any], told: str) -> None:
    whole = dict.fromkeys(("variables", "trainable_variables", "outputs", "loss_terms"))
    model = {**whole, "serving_features": ("zone",), "tables": {"zone": Table(tf.Variable([[0.0]]), 0, 1)}}
    require_interface("model m", SimpleNamespace(**model), SPEC)
    kept = {name: value for name, value in {**model, **changes}.items() if value is not None or name not in changes}
    with pytest.raises(KfrecError, match=told):
        require_interface("model m", SimpleNamespace(**kept), SPEC)


def _terms(total: Any, count: Any) -> dict[str, LossTerm]:
    return {"loss": LossTerm(total, count, 1.0)}


_B = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("outputs", "terms", "told"),
    [
        (
            _B,
            _terms(_B, _B),
            r"Model.loss_terms returns a .*Tensor of shape \(4,\) as outputs; return a mapping of names",
        ),
        ({"x": 0.5}, _terms(_B, _B), r"output x is a .*Tensor of shape \(\); return a tensor whose first axis is the"),
        ({"x": _B}, {}, "returns a dict as terms of the loss; return at least one LossTerm by name"),
        ({"x": _B}, {"loss": _B}, r"returns a .*Tensor of shape \(4,\) as term loss; return a LossTerm"),
        (
            {"x": _B},
            _terms(_B[:, None] - _B, _B),
            r"the total of term loss is .* \(4, 4\), not one value a sample; sum over",
        ),
        (
            {"x": _B},
            _terms(np.tile(_B, 2), _B),
            "the total of term loss has another number of rows than the batch; return",
        ),
        ({"x": _B}, _terms(_B, _B[:1]), "the count of term loss has another number of rows than the batch; return one"),
        ({"x": np.tile(_B, 2)}, _terms(_B, _B), "output x has another number of rows than the batch; return one row a"),
    ],
)
def test_outputs_and_losses_of_a_wrong_shape(outputs: Any, terms: Any, told: str) -> None:
    class Model(tf.Module):
        def loss_terms(self, features, targets, mask, training=True):
            return tf.nest.map_structure(tf.constant, (outputs, terms)) if terms else (outputs, terms)

    model: Any = Model()
    step = tf.function(lambda mask: loss_terms_of(model, {}, {}, mask)[1]["loss"], autograph=False)
    with pytest.raises((KfrecError, tf.errors.InvalidArgumentError), match=told):
        step(tf.ones([4], tf.bool))


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ({}, "task ranking: measure returns a dict; return a Measured"),
        (Measured({"test_map": 0.5}, {}), "measure returns test_auc=None, where its metrics promise a finite number"),
        (Measured({"test_map": float("nan")}, {}), "measure returns test_map=nan, where its metrics promise"),
        (Measured({}, {"roc": {"x": [0.0, float("inf")]}}), "measure returns inf in roc.x; leave an undefined number"),
        (Measured({"of": {"hour": float("nan")}}, {}), "measure returns nan in metrics.of.hour; leave an undefined"),
    ],
)
def test_a_metric_that_is_no_number(measured: Any, told: str) -> None:
    task = registry.task("ranking")
    complete = {f"test_{metric.name}": 0.5 for metric in task.metrics}
    if isinstance(measured, Measured) and "test_map" not in measured.metrics:
        measured.metrics.update(complete)
    with pytest.raises(KfrecError, match=told):
        measured_by(dataclasses.replace(task, measure=lambda scores, parameters: measured), Scores({}, {}), None)


def test_a_place_beyond_a_channel() -> None:
    column = Kept("zone", "zone", index=1, needed_for="the error by zone")
    line = missing_column(SPEC, [column])
    assert "the channel zone has 1 features, and the column zone of the task is its feature 1 counted from 0" in line


def test_served_outputs_without_names(tmp_path: Path) -> None:
    class Model(tf.Module):
        serving_features = ("x",)

        def outputs(self, features, training=False):
            return {"x": features["x"]}

    task = dataclasses.replace(registry.task("click"), serve=lambda outputs: outputs["x"])
    with pytest.raises(KfrecError, match=r"task click: serve returns a .*Tensor; return outputs by name"):
        export(Model(), task, {"x": tf.TensorSpec([None], tf.float32)}, tmp_path / "saved_model")


def test_a_difference_that_is_no_interval() -> None:
    wrong: Any = (0.1, 0.0, 0.2)
    task = dataclasses.replace(
        registry.task("click"), difference=lambda *given: wrong, value=lambda scores, parameters: 0.5
    )
    scores = Scores({}, {})
    with pytest.raises(KfrecError, match="task click: difference returns a tuple; return an Interval"):
        difference_of(task, scores, scores, None)
    sound = dataclasses.replace(task, difference=lambda *given: Interval(0.1, 0.0, 0.2))
    assert difference_of(sound, scores, scores, None).interval.high == 0.2
