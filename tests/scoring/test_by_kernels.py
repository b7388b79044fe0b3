"""A model that is built again from its export, to be scored by kernels."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.feature_spec import FeatureSpec, load_feature_spec
from components.models import build_model
from components.scoring import ExportedModel, load_model, rebuilt, score_split
from components.scoring.by_kernels import is_worthwhile
from components.steps.catalog import TrainParameters
from components.steps.parameter import as_plain
from components.train.export import FOLDER, export
from tests.fakes.small_shop import HISTORY, make_data, make_model

PARAMETERS = TrainParameters(model_type="din", embedding_dim=16, stage_two_mlp_dims=(6, 4), seed=3)
CHANNELS = ("uid", "item_trgt", "item_pos")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> FeatureSpec:
    return load_feature_spec(make_data(tmp_path_factory.mktemp("data") / "tfrecord"))


def exported(folder: Path, spec: FeatureSpec, parameters: TrainParameters = PARAMETERS) -> ExportedModel:
    import tensorflow as tf

    model = build_model(parameters, spec)
    folder.mkdir()
    shapes = {name: tf.TensorSpec([None, HISTORY] if name == "item_pos" else [None]) for name in model.serving_features}
    export(model, shapes, folder / FOLDER)
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    (folder / "parameters.json").write_text(json.dumps(as_plain(parameters)))
    return load_model(folder)


def batch(rows: int = 50) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {
        name: random.integers(0, 50, (rows, HISTORY) if name == "item_pos" else (rows,), np.int64) for name in CHANNELS
    }


def test_it_says_the_same_by_kernels(tmp_path: Path, spec: FeatureSpec, capsys: pytest.CaptureFixture[str]) -> None:
    model = exported(tmp_path / "model", spec)
    again = rebuilt(model, batch())
    assert again is not model
    assert not capsys.readouterr().out
    operations: Any = again.signature
    assert "PyFuncStateless" in {node.type for node in operations.graph.get_operations()}
    for rows in (1, 50, 300):
        np.testing.assert_allclose(again.begin(batch(rows))(), model.begin(batch(rows))(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        ({"parameters": {}}, "nothing is known about it"),
        ({"parameters": {**as_plain(PARAMETERS), "telepathy": 1}}, "it has parameters of another version"),
        ({"parameters": {**as_plain(PARAMETERS), "stage_two_mlp_dims": "6,5"}}, "its layers have other sizes"),
        ({"parameters": {**as_plain(PARAMETERS), "model_type": "sim"}}, "its features are not what the model reads"),
        ({"parameters": {**as_plain(PARAMETERS), "amp": True}}, "it computes in float16"),
        ({"weights": ()}, "its weights are not there"),
    ],
)
def test_what_cannot_be_built_again_is_scored_as_it_was_exported(
    changed: dict[str, Any], because: str, tmp_path: Path, spec: FeatureSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    model = dataclasses.replace(exported(tmp_path / "model", spec), **changed)
    assert rebuilt(model, batch()) is model, because
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'model'}: scored without kernels"), because


def test_a_model_that_says_something_else_now_is_scored_as_it_was_exported(
    tmp_path: Path, spec: FeatureSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    model = exported(tmp_path / "model", spec)
    moved = [weight + 0.01 for weight in model.weights]
    other = dataclasses.replace(model, weights=moved)
    assert rebuilt(other, batch()) is other
    assert "scored without kernels" in capsys.readouterr().out


def test_a_model_of_someone_else_is_scored_as_it_was_exported(tmp_path: Path, spec: FeatureSpec) -> None:
    assert spec.folder
    model = load_model(make_model(tmp_path / "model", spec.folder))
    assert rebuilt(model, batch()) is model


@pytest.mark.parametrize("worth", [600, 601])
def test_large_splits_are_scored_by_kernels(
    worth: int, tmp_path: Path, spec: FeatureSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[ExportedModel] = []
    build_again: Callable[..., ExportedModel] = rebuilt
    monkeypatch.setattr(
        "components.scoring.split.rebuilt", lambda *given: calls.append(build_again(*given)) or calls[0]
    )
    model = exported(tmp_path / "model", spec)
    before = score_split(spec, model, batch_size=128)
    assert not calls
    for name in ("_WORTH_BEGINNING", "_WORTH_COMPILING"):
        monkeypatch.setattr(f"components.scoring.by_kernels.{name}", worth)
    after = score_split(spec, model, batch_size=128)
    assert len(calls) == (1 if worth <= 600 else 0)
    np.testing.assert_allclose(after.probabilities, before.probabilities, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(after.labels, before.labels)


@pytest.mark.parametrize("asked", [False, True])
def test_who_asks_for_kernels_or_operations_gets_them(
    asked: bool, tmp_path: Path, spec: FeatureSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[ExportedModel] = []
    monkeypatch.setattr("components.scoring.split.rebuilt", lambda model, batch: calls.append(model) or model)
    monkeypatch.setattr("components.scoring.split.is_worthwhile", lambda samples: not asked)
    score_split(spec, exported(tmp_path / "model", spec), by_kernels=asked)
    assert len(calls) == asked


@pytest.mark.parametrize(("kept", "least"), [(False, 1_000_000), (True, 150_000)])
def test_kernels_that_have_to_be_compiled_are_worth_it_for_larger_splits_only(
    kept: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.scoring.by_kernels.is_kept", lambda kernel: kept)
    assert not is_worthwhile(least - 1)
    assert is_worthwhile(least)
