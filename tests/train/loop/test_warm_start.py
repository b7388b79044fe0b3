"""Weights of one data set's model in another's, matched by what the ids stand for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components import registry
from components.errors import KfrecError
from components.feature_spec import Channel, Chunk, Feature, FeatureSpec, Vocabulary
from components.models import Table
from components.models.layers.weights import Weights
from components.models.tables.creation import PlacedTables, Survey, tables_made_by
from components.models.tables.placement import Placement, sharding_of
from components.steps.catalog import WorkerParameters, worker_parameters
from components.train.export import _Served, export
from components.train.loop.state import named_state_of
from components.train.loop.warm_start import Taken, warm_start
from components.train.results import SAVED_MODEL
from tests.models.tables.simulated import on_simulated
from tests.train.building import build_model

PARAMETERS = worker_parameters("sim")(
    embedding_dim=2, long_seq_length=3, stage_one_mlp_dims=(4,), stage_two_mlp_dims=(4,), aux_mlp_dims=(4,)
)


def data(folder: Path, first: int = 3, **values: list[str]) -> FeatureSpec:
    """A specification whose ids stand for these values, from ``first`` on; the id before is that of unknown values."""
    (folder / "vocabulary").mkdir(parents=True)
    for name, known in values.items():
        table = pa.table({"id": np.arange(first, first + len(known), dtype=np.int32), "value": known})
        pq.write_table(table, folder / "vocabulary" / f"{name}.parquet")
    last = {name: first - 1 + len(known) for name, known in values.items()}
    features = [Feature("label", "bool"), Feature("uid", "int64", last["uid"])]
    for kind, length in (("trgt", None), ("pos", 5), ("neg", 2)):
        features += [Feature(f"{name}_{kind}", "int64", last[name], length) for name in ("item", "cat")]
    names = tuple(feature.name for feature in features)
    channels = {Channel.LABEL: names[:1], Channel.USER: names[1:2], Channel.TARGET: names[2:4],
                Channel.POSITIVE: names[4:6], Channel.NEGATIVE: names[6:8]}  # fmt: skip
    sources = {split: Chunk(names, (f"{split}.tfrecord",)) for split in ("train", "test")}
    vocabularies = {
        name: {
            "file": f"vocabulary/{name}.parquet",
            "unknown": first - 1,
            "features": [feature for feature in names if feature.split("_")[0] == name],
        }
        for name in values
    }
    metadata = {"vocabulary": vocabularies}
    spec = FeatureSpec({f.name: f for f in features}, sources, channels, metadata, folder)
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return spec


def exported(spec: FeatureSpec, parameters: WorkerParameters = PARAMETERS) -> Any:
    """Writes a model for this data into its folder, as the registry keeps it."""
    model = build_model(parameters, spec, seed=1)
    shapes = {
        name: tf.TensorSpec(
            (None,) if spec.features[name].length is None else (None, spec.features[name].length), tf.int32
        )
        for name in model.serving_features
    }
    export(model, registry.task("click"), shapes, spec.folder / SAVED_MODEL)
    return model


def table(model: Any, index: int) -> np.ndarray:
    return model.inputs.embedding.table(index).numpy()


@pytest.mark.slow
def test_rows_follow_what_their_ids_stand_for(tmp_path: Path) -> None:
    old = data(tmp_path / "old", uid=["ann", "bob"], item=["i1", "i2", "i3"], cat=["x", "y"])
    new = data(tmp_path / "new", uid=["bob", "eve", "ann"], item=["i3", "new", "i1", "i2"], cat=["x", "y"])
    known, model = exported(old), build_model(PARAMETERS, new, seed=2)
    fresh = build_model(PARAMETERS, new, seed=2)
    taken = warm_start(str(old.folder), old.folder, model, new)
    items, cats, users = (table(model, n) for n in range(3))
    for new_id, old_id in {0: 0, 1: 1, 2: 2, 3: 5, 5: 3, 6: 4}.items():
        np.testing.assert_array_equal(items[new_id], table(known, 0)[old_id])
    np.testing.assert_array_equal(items[4], table(fresh, 0)[4])  # the new item starts as any fresh one
    np.testing.assert_array_equal(cats, table(known, 1))
    np.testing.assert_array_equal(users[[3, 5]], table(known, 2)[[4, 3]])
    np.testing.assert_array_equal(users[4], table(fresh, 2)[4])
    assert taken == Taken(len(model.variables), 6 + 5 + 5, (), ())
    for mine, theirs in zip(model.variables, known.variables, strict=True):
        if all(mine is not table.variable for table in model.tables.values()):
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


@pytest.mark.slow
def test_where_unknown_values_share_the_id_of_padding_new_ids_stay_as_drawn(tmp_path: Path) -> None:
    old = data(tmp_path / "old", 1, uid=["ann", "bob"], item=["i1", "i2"], cat=["x"])
    new = data(tmp_path / "new", 1, uid=["eve", "bob", "ann"], item=["i1", "i2"], cat=["x"])
    known, model = exported(old), build_model(PARAMETERS, new, seed=2)
    fresh = build_model(PARAMETERS, new, seed=2)
    taken = warm_start(str(old.folder), old.folder, model, new)
    users = table(model, 2)
    np.testing.assert_array_equal(users[[0, 2, 3]], table(known, 2)[[0, 2, 1]])
    np.testing.assert_array_equal(users[1], table(fresh, 2)[1])
    assert taken.rows == 3 + 2 + 3


def test_a_model_of_another_size_is_one_line(tmp_path: Path) -> None:
    old = data(tmp_path / "old", uid=["ann"], item=["i1"], cat=["x"])
    exported(old)
    wider = build_model(dataclasses.replace(PARAMETERS, stage_one_mlp_dims=(8,)), old, seed=1)
    with pytest.raises(
        KfrecError, match=r"its \S+ has shape \[.*4.*\], this model's has \[.*8.*\]; use the same model_"
    ):
        warm_start(str(old.folder), old.folder, wider, old)


class Encoder(tf.Module):
    """A pre-trained encoder beside the weights of these names.

    Args:
        value: of every weight.
        others: their names.
        layers: of the encoder.
    """

    def __init__(self, value: float, *others: str, layers: int = 1) -> None:
        super().__init__()
        names = [f"encoder/layer_{number}/kernel" for number in range(layers)]
        self.weights = [tf.Variable(tf.fill([3], value), name=name) for name in (*names, *others)]
        self.tables: dict[str, Table] = {}


@pytest.fixture
def pretrained(tmp_path: Path) -> FeatureSpec:
    """Where an encoder lies that was trained beside a generator and a head."""
    spec = data(tmp_path / "pretrained", uid=["ann"], item=["i1"], cat=["x"])
    model = Encoder(1.0, "generator/kernel", "generator/bias", "head/kernel")
    variables = named_state_of(model)
    tf.saved_model.save(_Served(variables), str(spec.folder / SAVED_MODEL))
    return spec


def started(model: Any, spec: FeatureSpec, *fresh: str) -> Taken:
    return warm_start("gs://earlier", spec.folder, model, spec, fresh)


def values(model: Encoder) -> dict[str, float]:
    return {name: float(variable[0]) for name, variable in named_state_of(model).items()}


def test_a_fine_tuning_takes_the_encoder_and_starts_with_a_head_of_its_own(pretrained: FeatureSpec) -> None:
    model = Encoder(0.0, "answer/kernel", "answer/bias")
    taken = started(model, pretrained, "answer/")
    assert values(model) == {"encoder/layer_0/kernel": 1.0, "answer/kernel": 0.0, "answer/bias": 0.0}
    assert taken.line("gs://earlier") == (
        "starting from the weights of gs://earlier: 1 weights, with 0 rows of embeddings; new: answer/kernel, "
        "answer/bias; not read: generator (2), head"
    )


def test_a_fresh_weight_is_taken_where_it_fits_and_replaced_where_not(pretrained: FeatureSpec) -> None:
    model = Encoder(0.0, "head/kernel")
    assert started(model, pretrained, "head/").new == () and values(model)["head/kernel"] == 1.0
    other = Encoder(0.0)
    other.weights = [*other.weights, tf.Variable(tf.zeros([5]), name="head/kernel")]
    assert started(other, pretrained, "head/").new == ("head/kernel",)
    narrower = Encoder(0.0, "head/output")
    assert started(narrower, pretrained, "head/").unread == ("generator/bias", "generator/kernel", "head/kernel")


@pytest.mark.parametrize(
    ("model", "fresh", "told"),
    [
        (Encoder(0.0, "answer/kernel"), (), "its model has no answer/kernel; use the same .* the model's fresh"),
        (Encoder(0.0, layers=2), ("head/",), "its model has no encoder/layer_1/kernel; use the same"),
        (Encoder(0.0, "head/output"), ("head/output",), "its model has head/kernel, which this one has not; use the"),
    ],
)
def test_weights_that_fit_nowhere_are_one_line(
    model: Encoder, fresh: tuple[str, ...], told: str, pretrained: FeatureSpec
) -> None:
    before = values(model)
    with pytest.raises(KfrecError, match=f"warm_start_path gs://earlier: {told}"):
        started(model, pretrained, *fresh)
    assert values(model) == before


def test_weights_of_another_exact_vocabulary_are_one_line(pretrained: FeatureSpec, tmp_path: Path) -> None:
    other = data(tmp_path / "other", uid=["ann"], item=["i2"], cat=["x"])
    model = Encoder(0.0)
    warm_start("gs://earlier", pretrained.folder, model, other)
    noted = other.metadata["vocabulary"]
    exact = {"vocabulary": {**noted, "item": {**noted["item"], "exact": True}}}
    with pytest.raises(
        KfrecError, match=r"warm_start_path gs://earlier: .*item\.parquet: is another vocabulary of item"
    ):
        warm_start("gs://earlier", pretrained.folder, model, dataclasses.replace(other, metadata=exact))


def test_an_exported_model_without_names_is_one_line(pretrained: FeatureSpec) -> None:
    class Earlier(tf.Module):
        """What an earlier kfrec saved."""

        def __init__(self) -> None:
            super().__init__()
            self.weights = (tf.Variable([1.0]),)

    tf.saved_model.save(Earlier(), str(pretrained.folder / SAVED_MODEL))
    with pytest.raises(KfrecError, match="saved_model: was exported by an earlier kfrec, whose weights have no names"):
        started(Encoder(0.0), pretrained)


def test_a_place_without_a_model_is_one_line(tmp_path: Path) -> None:
    spec = data(tmp_path / "old", uid=["ann"], item=["i1"], cat=["x"])
    with pytest.raises(KfrecError, match="no saved_model here; give the folder of a trained model"):
        warm_start(str(spec.folder), spec.folder, build_model(PARAMETERS, spec, seed=1), spec)


def table_data(folder: Path, cities: list[str]) -> FeatureSpec:
    """A specification with one id column, whose ids stand for these values, from 1 on."""
    (folder / "vocabulary").mkdir(parents=True)
    ids = np.arange(1, 1 + len(cities), dtype=np.int32)
    pq.write_table(pa.table({"id": ids, "value": cities}), folder / "vocabulary" / "city.parquet")
    features = {"label": Feature("label", "bool"), "city": Feature("city", "int64", len(cities))}
    sources = {split: Chunk(tuple(features), (f"{split}.tfrecord",)) for split in ("train", "test")}
    channels = {Channel.LABEL: ("label",), Channel.CATEGORICAL: ("city",)}
    city = Vocabulary("city", "vocabulary/city.parquet", 0, ("city",))
    spec = FeatureSpec(features, sources, channels, {"vocabulary": {"city": city.to_dict()}}, folder)
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return spec


@pytest.mark.parametrize(
    ("model_type", "sizes", "names"),
    [
        ("dlrm", dict(embedding_dim=3, top_mlp_dims=(3, 1)), ("city",)),
        ("wide_and_deep", dict(deep_hidden_units=(3,)), ("city", "wide/city")),
    ],
)
def test_the_tables_of_a_feature_follow_what_the_ids_of_a_table_stand_for(
    model_type: str, sizes: dict[str, Any], names: tuple[str, ...], tmp_path: Path
) -> None:
    parameters = worker_parameters(model_type)(model_type=model_type, **sizes)
    old, new = (
        table_data(tmp_path / name, cities) for name, cities in (("old", ["a", "b", "c"]), ("new", ["c", "a", "d"]))
    )
    known, model, fresh = (build_model(parameters, spec, seed=seed) for spec, seed in ((old, 1), (new, 2), (new, 2)))
    for name in names:
        table = known.tables[name].variable
        table.assign(tf.reshape(tf.cast(tf.range(tf.size(table)), tf.float32), table.shape))
    export(known, registry.task("click"), {"city": tf.TensorSpec((None,), tf.int32)}, old.folder / SAVED_MODEL)
    assert warm_start(str(old.folder), old.folder, model, new).rows == len(names) * 3
    for name in names:
        mine, theirs, drawn = (each.tables[name].variable.numpy() for each in (model, known, fresh))
        np.testing.assert_array_equal(mine[[0, 1, 2]], theirs[[0, 3, 1]])
        np.testing.assert_array_equal(mine[3], drawn[3])  # the new city starts as any fresh one


@pytest.mark.parametrize("kind", ["rows", "columns", "rank"])
def test_a_rank_receives_its_part_of_what_a_whole_table_would(kind: str, tmp_path: Path) -> None:
    parameters = worker_parameters("dlrm")(model_type="dlrm", embedding_dim=4, top_mlp_dims=(3, 1))
    old, new = (table_data(tmp_path / name, list(cities)) for name, cities in (("old", "abcdefg"), ("new", "gxaecyb")))
    export(
        build_model(parameters, old, seed=1),
        registry.task("click"),
        {"city": tf.TensorSpec((None,), tf.int32)},
        old.folder / SAVED_MODEL,
    )
    whole = build_model(parameters, new, seed=2)
    warm_start(str(old.folder), old.folder, whole, new)

    def start(ranks: Any) -> Any:
        survey = Survey()
        with tables_made_by(survey):
            build_model(parameters, new, seed=2)
        placements = {table.name: Placement(kind, rank=1) for table in survey.requested}
        with tables_made_by(PlacedTables(placements, ranks)):
            model = build_model(parameters, new, seed=2)
        assert (
            warm_start(str(old.folder), old.folder, model, new).rows == 6
        )  # of all ranks: 0 and the five known cities
        return model.tables["city"].variable

    expected = whole.tables["city"].variable.numpy()
    for found in on_simulated(2, start):
        sharding = sharding_of(found)
        assert sharding is not None
        part = sharding.mine
        np.testing.assert_array_equal(found.numpy(), expected[part.ids(0, part.rows), part.begin : part.end])


@pytest.mark.parametrize("kind", ["rows", "columns", "rank"])
def test_a_sharded_weight_that_is_no_features_table_is_taken_as_it_is(kind: str, pretrained: FeatureSpec) -> None:
    values = np.arange(20, dtype="f").reshape(5, 4)
    named = {"words": tf.Variable(values, name="words")}
    tf.saved_model.save(_Served(named), str(pretrained.folder / SAVED_MODEL))

    def start(ranks: Any) -> Any:
        model: Any = tf.Module()
        model.tables = {}
        with tables_made_by(PlacedTables({"words": Placement(kind, rank=1)}, ranks)):
            model.words = Weights(1).tables().uniform("words", (5, 4), 1.0)
        started(model, pretrained)
        return model.words

    for found in on_simulated(2, start):
        sharding = sharding_of(found)
        assert sharding is not None
        part = sharding.mine
        np.testing.assert_array_equal(found.numpy(), values[part.ids(0, part.rows), part.begin : part.end])


@pytest.mark.slow
@pytest.mark.parametrize("file", ["variables.index", "variables.data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_weights_are_one_line(file: str, damage: str, tmp_path: Path) -> None:
    old = data(tmp_path / "old", uid=["ann"], item=["i1"], cat=["x"])
    model = exported(old)
    path = old.folder / SAVED_MODEL / "variables" / file
    content = path.read_bytes()
    path.write_bytes(content[:20] if damage == "cut" else content[:9] + bytes([content[9] ^ 4]) + content[10:])
    with pytest.raises(KfrecError, match=r"saved_model: cannot be loaded \(.*train again"):
        warm_start(str(old.folder), old.folder, model, old)
