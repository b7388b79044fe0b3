"""What SIM's search found, from the export to the report."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components import registry
from components.artifacts import adopt
from components.errors import KfrecError
from components.evaluate import step
from components.feature_spec import load_feature_spec
from components.models.sim.search import WEIGHTS, Searched, search_examples, sections
from components.records import Records
from components.scoring import ExportedModel, explained, load_model
from components.steps.catalog import worker_parameters
from components.train.export import export
from tests.train.building import build_model
from tests.train.dataset import CATEGORIES, HISTORY, ITEMS, LONG, specification, write_dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records whose categories, but the last, have names."""
    folder = write_dataset(tmp_path_factory.mktemp("searched") / "data", train=1)
    (folder / "vocabulary").mkdir()
    ids = range(1, CATEGORIES)
    pq.write_table(pa.table({"id": ids, "value": [f"<kind {n}>" for n in ids]}), folder / "vocabulary" / "cat.parquet")
    entry = {"file": "vocabulary/cat.parquet", "unknown": 0, "features": ["cat_trgt", "cat_pos", "cat_neg"]}
    spec = dataclasses.replace(specification(folder), metadata={"vocabulary": {"cat": entry}})
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    adopt(folder)
    return folder


def exported(model_type: str, data: Path, folder: Path) -> ExportedModel:
    sizes = {"stage_one_mlp_dims": (4,), "stage_two_mlp_dims": (4,), "mlp_dims": (4,), "long_seq_length": LONG}
    known = {field.name for field in dataclasses.fields(worker_parameters(model_type))}
    own = {name: size for name, size in sizes.items() if name in known}
    parameters = worker_parameters(model_type)(model_type=model_type, embedding_dim=4, **own)
    spec, definition = load_feature_spec(data), registry.model(model_type)
    model = build_model(parameters, spec, seed=1)
    lengths = {name: spec.features[name].length for name in model.serving_features}
    shapes = {name: tf.TensorSpec((None, length) if length else (None,), tf.int32) for name, length in lengths.items()}
    folder.mkdir()
    with definition.serving():
        export(model, registry.task("click"), shapes, folder / "saved_model")
    shutil.copyfile(data / "feature_spec.yaml", folder / "feature_spec.yaml")
    shutil.copytree(data / "vocabulary", folder / "vocabulary")
    adopt(folder)
    return load_model(folder)


@pytest.fixture(scope="module")
def sim(data: Path, tmp_path_factory: pytest.TempPathFactory) -> ExportedModel:
    return exported("sim", data, tmp_path_factory.mktemp("sim") / "model")


@pytest.fixture(scope="module")
def searched(data: Path, sim: ExportedModel) -> Searched:
    about = explained(load_feature_spec(data), sim, {})
    assert about is not None
    searched = search_examples(about)
    assert searched is not None
    return searched


@pytest.mark.slow
def test_the_examples_are_clicked_samples_of_different_users_with_what_was_in_their_histories(
    data: Path, searched: Searched
) -> None:
    batch = next(Records(load_feature_spec(data), "test").batches(301))
    assert len({example.user for example in searched.examples}) == len(searched.examples) == 3
    for example in searched.examples:
        own = (batch["uid"] == example.user) & (batch["item_trgt"] == example.item) & (batch["label"] > 0)
        histories = batch["item_pos"][own]
        assert example.searched == example.found == LONG
        assert any(all(history[HISTORY - each.ago] == each.item for each in example.best) for history in histories)
        weights = [each.weight for each in example.best]
        assert weights == sorted(weights, reverse=True) and sum(weights) == pytest.approx(1, abs=1e-5)
        told = [(example.item, example.category), *((each.item, each.category) for each in example.best)]
        for item, name in told:
            category = (item - 1) % CATEGORIES + 1
            assert name == ("id 9" if category == CATEGORIES else f"<kind {category}>")


def test_weights_are_those_of_the_candidate_s_own_search(data: Path, sim: ExportedModel, searched: Searched) -> None:
    batch = next(Records(load_feature_spec(data), "test").batches(301))
    clicked = np.flatnonzero((batch["label"] > 0) & (batch["item_pos"][:, :LONG] > 0).any(1))
    weights = sim.explained(batch)[WEIGHTS]
    alike, own = batch["cat_pos"][clicked] == batch["cat_trgt"][clicked, None], weights[clicked]
    reached = own >= 0
    assert searched.samples == len(clicked)
    assert searched.alike == pytest.approx(((reached & alike).sum(1) / reached.sum(1)).mean())
    assert searched.alike_weight == pytest.approx((np.maximum(own, 0) * alike).sum(1).mean(), abs=1e-5)


def test_ids_are_those_of_the_data_whatever_the_model_calls_them(data: Path, sim: ExportedModel) -> None:
    spec = load_feature_spec(data)
    as_unknown = {name: np.zeros(ITEMS + 1, np.int32) for name in ("item_trgt", "cat_trgt")}
    about = explained(spec, sim, as_unknown)
    assert about is not None
    searched = search_examples(about)
    assert searched is not None and all(example.item > 0 for example in searched.examples)


def test_the_section_names_categories_and_no_user_or_item(data: Path, sim: ExportedModel, searched: Searched) -> None:
    about = explained(load_feature_spec(data), sim, {})
    assert about is not None
    (section,) = sections(about)
    assert len(section.figures) == 3
    first, example = section.figures[0], searched.examples[0]
    assert first.title == f"User {example.user}, candidate {example.item}, {example.category}"
    assert f"<td>{example.best[0].item}</td>" in first.chart and "<kind" not in first.chart


def test_a_model_that_explains_nothing_has_no_section(data: Path, tmp_path: Path) -> None:
    model = exported("din", data, tmp_path / "model")
    assert model.explain is None and explained(load_feature_spec(data), model, {}) is None


def test_an_explanation_that_returns_no_sections_is_one_line(
    data: Path, sim: ExportedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = dataclasses.replace(registry.model("sim"), explanation=lambda about: ["found"])  # type: ignore[list-item]
    monkeypatch.setattr(registry, "model", lambda name: wrong)
    about = explained(load_feature_spec(data), sim, {})
    assert about is not None
    with pytest.raises(KfrecError, match=r"model sim: explanation returns \['found'\]; return a list of Section"):
        step._explanation("sim", about)
