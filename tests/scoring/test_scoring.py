import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components import registry
from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec, Vocabulary, load_feature_spec
from components.metrics import roc_auc
from components.records import Records
from components.scoring import ExportedModel, load_model, score_split, scoring_translation, translation
from components.scoring.signature import Output
from components.tasks import Scores
from tests.binary import probabilities_of
from tests.fakes.small_shop import NAMES, make_data, make_model, quality

# The same items after newer data: three are new, two are gone, all have other ids.
NEWER = ("C000", "C001", "C002", *reversed(NAMES[2:]))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("data") / "tfrecord")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("newer") / "tfrecord", names=NEWER)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "model", data)


@pytest.fixture(scope="module")
def newer_model(tmp_path_factory: pytest.TempPathFactory, newer: Path) -> Path:
    return make_model(tmp_path_factory.mktemp("newer_model") / "model", newer, NEWER)


def scored(data: Path, model: Path, batch_size: int = 128) -> Scores:
    spec, exported = load_feature_spec(data), load_model(model)
    kept = registry.task("click").kept
    return score_split(spec, exported, kept, batch_size=batch_size, lookups=translation(spec, exported))


def test_scores_come_in_the_order_of_the_file_whatever_the_batch_size(data: Path, model: Path) -> None:
    small, large = scored(data, model, 7), scored(data, model, 10_000)
    assert len(small.labels) == 600
    assert set(small.kept) == {"user", "history_length", "popularity"}
    np.testing.assert_array_equal(small.labels, large.labels)
    np.testing.assert_allclose(probabilities_of(small), probabilities_of(large), rtol=1e-5)
    for name in small.kept:
        np.testing.assert_array_equal(small.kept[name], large.kept[name])


@pytest.mark.parametrize("part", [599, 256, 1])
def test_parts_that_are_scored_side_by_side_come_back_in_order(
    data: Path, model: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, exported = load_feature_spec(data), load_model(model)
    whole = probabilities_of(score_split(spec, exported, batch_size=600))
    monkeypatch.setattr("components.scoring.model._PART", part)
    in_parts = probabilities_of(score_split(spec, exported, batch_size=600))
    np.testing.assert_allclose(in_parts, whole, rtol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "largest"),
    [
        ({}, 2048),
        ({"global_batch_size": 512}, 512),
        ({"global_batch_size": 512, "micro_batch_size": 32}, 32),
        ({"global_batch_size": 512, "micro_batch_size": 0}, 512),
        ({"global_batch_size": 65_536}, 2048),
    ],
)
def test_no_more_samples_are_scored_at_a_time_than_were_differentiated(
    parameters: dict[str, int], largest: int, tmp_path: Path
) -> None:
    sizes = []

    def signature(**features: Any) -> Mapping[str, Any]:
        sizes.append(len(features["ids"]))
        return {"twice": 2 * features["ids"].numpy()}

    spec = FeatureSpec({"ids": Feature("ids", "int64")}, {}, {}, {}, tmp_path)
    exported = ExportedModel(tmp_path, spec, parameters, ("ids",), {"twice": Output("int64")}, signature)
    ids = np.arange(5000)
    np.testing.assert_array_equal(exported.begin({"ids": ids})()["twice"], 2 * ids)
    assert max(sizes) == largest


def test_a_model_that_knows_the_qualities_ranks_well(data: Path, model: Path) -> None:
    scores = scored(data, model)
    assert roc_auc(scores.labels, probabilities_of(scores)) > 0.75


def test_history_lengths_leave_out_the_padding(data: Path, model: Path) -> None:
    lengths = scored(data, model).kept["history_length"]
    assert lengths is not None
    assert (lengths.min(), lengths.max()) == (1, 6)


def test_popularity_counts_the_candidate_in_all_histories_of_the_split(data: Path, model: Path) -> None:
    batch = next(Records(load_feature_spec(data), "test").batches(600))
    items, times = np.unique(batch["item_pos"][batch["item_pos"] > 0], return_counts=True)
    counts = dict(zip(items.tolist(), times.tolist(), strict=True))
    expected = [counts.get(item, 0) for item in batch["item_trgt"].tolist()]
    np.testing.assert_array_equal(scored(data, model).kept["popularity"], expected)


def test_equal_vocabularies_need_no_translation(data: Path, model: Path) -> None:
    assert translation(load_feature_spec(data), load_model(model)) == {}


def test_ids_are_translated_through_their_names(newer: Path, model: Path) -> None:
    lookups = translation(load_feature_spec(newer), load_model(model))
    assert sorted(lookups) == ["item_pos", "item_trgt"]
    ours = {name: 3 + index for index, name in enumerate(NEWER)}
    theirs = {name: 3 + index for index, name in enumerate(NAMES)}
    assert [lookups["item_trgt"][ours[name]] for name in NAMES[2:]] == [theirs[name] for name in NAMES[2:]]


def test_unseen_ids_become_unknown_and_reserved_ids_stay(newer: Path, model: Path) -> None:
    lookup = translation(load_feature_spec(newer), load_model(model))["item_trgt"]
    assert lookup[:6].tolist() == [0, 1, 2, 2, 2, 2]


def test_unknown_ids_are_those_of_the_models_vocabulary(newer: Path, model: Path, tmp_path: Path) -> None:
    mine = shutil.copytree(model, tmp_path / "model")
    text = (mine / "feature_spec.yaml").read_text()
    (mine / "feature_spec.yaml").write_text(text.replace("unknown: 2", "unknown: 0"))
    adopt(mine)
    lookup = translation(load_feature_spec(newer), load_model(mine))["item_trgt"]
    assert lookup[:6].tolist() == [0, 1, 0, 0, 0, 0]


def test_an_older_model_scores_newer_data_as_one_trained_on_it(newer: Path, model: Path, newer_model: Path) -> None:
    old, new = probabilities_of(scored(newer, model)), probabilities_of(scored(newer, newer_model))
    unseen = np.isclose(old, 0.5, atol=1e-5)  # what the model believes of an unknown item
    assert 0 < unseen.mean() < 0.2
    np.testing.assert_allclose(old[~unseen], new[~unseen], rtol=1e-5)


def test_without_vocabularies_equal_cardinalities_are_taken_as_they_are(tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", vocabulary=False, rows=20)
    assert translation(load_feature_spec(data), load_model(make_model(tmp_path / "model", data))) == {}


def test_without_vocabularies_other_cardinalities_cannot_be_compared(tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", vocabulary=False, rows=20)
    model = make_model(tmp_path / "model", data)
    other = make_data(tmp_path / "other", vocabulary=False, rows=20, names=NAMES[:30])
    with pytest.raises(KfrecError, match=r"item_pos has 32 ids in .*/other and 62 in .*/model"):
        translation(load_feature_spec(other), load_model(model))


def test_numbers_that_were_scaled_otherwise_cannot_be_compared(data: Path, model: Path) -> None:
    exported, spec = load_model(model), load_feature_spec(data)
    assert scoring_translation(spec, exported) == {}

    def noting(spec: FeatureSpec, digest: str, **columns: str) -> FeatureSpec:
        return replace(spec, metadata={**spec.metadata, "encoding": {"statistics": digest, "columns": columns}})

    theirs = replace(exported, spec=noting(exported.spec, "a"))
    assert scoring_translation(noting(spec, "a"), theirs) == {}
    with pytest.raises(KfrecError, match=r"are scaled by other statistics than those that the model in .*/model"):
        scoring_translation(noting(spec, "b"), theirs)
    assert translation(noting(spec, "b"), theirs) == {}
    # Columns that the model does not know do not count.
    theirs = replace(exported, spec=noting(exported.spec, "a", age="1"))
    assert scoring_translation(noting(spec, "b", age="1", price="2"), theirs) == {}
    with pytest.raises(KfrecError, match=r"are scaled by other statistics than those that the model in .*/model"):
        scoring_translation(noting(spec, "b", age="3", price="2"), theirs)


def test_other_history_lengths_cannot_be_compared(data: Path, model: Path, tmp_path: Path) -> None:
    text = (data / "feature_spec.yaml").read_text().replace("- 6\n", "- 9\n")
    (tmp_path / "feature_spec.yaml").write_text(text)
    with pytest.raises(KfrecError, match=r"reads 6 values of item_pos, the data in .* has 9"):
        scoring_translation(load_feature_spec(tmp_path), load_model(model))


def test_a_feature_that_the_data_lacks_cannot_be_compared(data: Path, model: Path, tmp_path: Path) -> None:
    text = (data / "feature_spec.yaml").read_text().replace("item_trgt", "product_trgt")
    (tmp_path / "feature_spec.yaml").write_text(text)
    with pytest.raises(KfrecError, match=r"reads item_trgt, which the data in .* lacks"):
        translation(load_feature_spec(tmp_path), load_model(model))


def test_a_broken_vocabulary_names_the_file(tmp_path: Path, model: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=20)
    pq.write_table(pa.table({"id": [1], "name": ["x"]}), data / "vocabulary" / "item.parquet")
    with pytest.raises(KfrecError, match=r"vocabulary/item.parquet: not a vocabulary with columns id and value"):
        translation(load_feature_spec(data), load_model(model))


@pytest.mark.parametrize("name", ["saved_model/assets/more.txt", "vocabulary/more.parquet", "parameters.json"])
def test_a_model_with_files_that_its_manifest_does_not_list_is_refused(tmp_path: Path, model: Path, name: str) -> None:
    mine = shutil.copytree(model, tmp_path / "model")
    (mine / name).unlink(missing_ok=True)
    adopt(mine)
    load_model(mine)
    (mine / name).parent.mkdir(exist_ok=True)
    (mine / name).write_text("{}")
    with pytest.raises(KfrecError, match=rf"{name}: not listed in _manifest\.json"):
        load_model(mine)


def test_a_folder_without_a_model_is_one_line(data: Path) -> None:
    with pytest.raises(KfrecError, match=r"saved_model: no SavedModel here; run the train step again"):
        load_model(data)


def test_probabilities_that_are_not_numbers_are_refused(tmp_path: Path, data: Path) -> None:
    broken: Callable[[str], float] = lambda name: float("nan") if name == "B007" else quality(name)  # noqa: E731
    with pytest.raises(KfrecError, match="not numbers"):
        scored(data, make_model(tmp_path / "model", data, belief=broken))


@pytest.mark.parametrize("channel", ["categorical", "multihot"])
def test_an_unseen_id_of_a_table_is_a_rare_one(tmp_path: Path, channel: str) -> None:
    def described(folder: Path, values: list[str]) -> FeatureSpec:
        (folder / "vocabulary").mkdir(parents=True)
        table = pa.table({"id": pa.array(range(1, 1 + len(values)), pa.int32()), "value": values})
        pq.write_table(table, folder / "vocabulary" / "city.parquet")
        length = 3 if channel == "multihot" else None
        noted = {"vocabulary": {"city": Vocabulary("city", "vocabulary/city.parquet", 0, ("city",)).to_dict()}}
        return FeatureSpec(
            {"city": Feature("city", "int64", len(values), length)}, {}, {channel: ("city",)}, noted, folder
        )

    data, trained_on = described(tmp_path / "data", ["c", "new", "a"]), described(tmp_path / "old", ["a", "b", "c"])
    model = ExportedModel(tmp_path / "old", trained_on, {}, ("city",), {}, lambda **_: {})
    assert translation(data, model)["city"].tolist() == [0, 3, 0, 1]
