"""Parquet to records: what goes in comes out, in an order that depends on the seed alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt, open_artifact
from components.errors import KfrecError
from components.feature_spec import FeatureSpec, Vocabulary, load_feature_spec
from components.feature_spec.side_tables import SIDE_TABLES, read_side_table, side_tables
from components.records import Records
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from tests.tfrecord.parquet_data import artifact, described, samples, table, write_metadata, write_parts

RECORD_NAMES = ("label", "uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos", "item_neg", "cat_neg")
ROWS = 700


def padded(columns: dict[str, list], history: int) -> np.ndarray:
    """The samples as rows of a matrix, histories left-padded."""

    def matrix(values: list) -> np.ndarray:
        if not isinstance(values[0], list):
            return np.array(values)[:, None]
        length = history if len(values[0]) != 3 or history == 3 else 3
        return np.array([[0] * (length - len(row)) + row for row in values])

    return np.concatenate([matrix(values) for values in columns.values()], axis=1)


def sorted_rows(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.lexsort(matrix.T)]


def read(folder: Path, split: str) -> np.ndarray:
    records = Records(load_feature_spec(folder), split)
    batches = list(records.batches(100))
    return np.concatenate(
        [
            np.concatenate([batch[name].reshape(len(batch["label"]), -1) for name in RECORD_NAMES], 1)
            for batch in batches
        ]
    )


def parse_with_tensorflow(folder: Path, split: str) -> np.ndarray:
    """Reads as anyone would who knows only the specification."""
    import tensorflow as tf

    spec = load_feature_spec(folder)
    prebatch = spec.prebatch_size(split)
    if prebatch:
        description: dict[str, Any] = {name: tf.io.VarLenFeature(tf.int64) for name in spec.features}
    else:
        description = {n: tf.io.FixedLenFeature([f.length or 1], tf.int64) for n, f in spec.features.items()}
    rows = []
    for record in tf.data.TFRecordDataset([str(path) for path in spec.files(split)]):
        parsed = tf.io.parse_single_example(record, description)
        dense = {n: tf.sparse.to_dense(v).numpy() if prebatch else v.numpy() for n, v in parsed.items()}
        rows.append(np.concatenate([dense[n].reshape(-1, spec.features[n].length or 1) for n in RECORD_NAMES], axis=1))
    return np.concatenate(rows)


def content(folder: Path) -> dict[str, bytes]:
    """Every file but the manifest, which holds the parameters and the digest of the input."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "_manifest.json"
    }


@pytest.fixture(scope="module")
def columns() -> dict[str, list]:
    return samples(ROWS)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list]) -> Path:
    folder = tmp_path_factory.mktemp("data") / "parquet"
    return artifact(folder, table(columns), table(samples(53)), parts=12, row_group_size=40)


@pytest.mark.slow
@pytest.mark.parametrize("prebatch", [0, 64])
@pytest.mark.parametrize("reader", [read, parse_with_tensorflow])
def test_records_hold_the_samples_of_the_parquet_files(
    tmp_path: Path, parquet: Path, columns: dict[str, list], prebatch: int, reader: Any
) -> None:
    parameters = TfrecordParameters(prebatch_train_size=prebatch, samples_per_shard=300)
    rows = run(parameters, parquet=parquet, tfrecord=tmp_path / "out")
    assert rows == {"train": ROWS, "test": 53}
    found = reader(tmp_path / "out", "train")
    np.testing.assert_array_equal(sorted_rows(found), sorted_rows(padded(columns, 12)))


@pytest.mark.slow
@pytest.mark.parametrize("prebatch", [0, 64])
def test_our_reader_and_tensorflow_agree_on_the_order(tmp_path: Path, parquet: Path, prebatch: int) -> None:
    run(TfrecordParameters(prebatch_train_size=prebatch), parquet=parquet, tfrecord=tmp_path / "out")
    np.testing.assert_array_equal(read(tmp_path / "out", "train"), parse_with_tensorflow(tmp_path / "out", "train"))


def test_both_splits_are_shuffled(tmp_path: Path, parquet: Path, columns: dict[str, list]) -> None:
    run(TfrecordParameters(), parquet=parquet, tfrecord=tmp_path / "out")
    train, test = read(tmp_path / "out", "train"), read(tmp_path / "out", "test")
    # A random permutation leaves about one row in its place, whatever the number of rows.
    assert (train == padded(columns, 12)).all(axis=1).sum() < 8
    assert (test == padded(samples(53), 12)).all(axis=1).sum() < 8


def test_files_do_not_depend_on_the_number_of_workers(tmp_path: Path, parquet: Path) -> None:
    for workers in (1, 2):
        run(
            TfrecordParameters(workers=workers, samples_per_shard=200),
            parquet=parquet,
            tfrecord=tmp_path / f"{workers}",
        )
    assert content(tmp_path / "1") == content(tmp_path / "2")


def test_files_do_not_depend_on_how_rows_are_spread_over_parts(
    tmp_path: Path, parquet: Path, columns: dict[str, list]
) -> None:
    artifact(tmp_path / "other", table(columns, pa.int32()), table(samples(53)), parts=2)
    for source, name in ((parquet, "a"), (tmp_path / "other", "b")):
        run(TfrecordParameters(prebatch_train_size=32), parquet=source, tfrecord=tmp_path / name)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_another_seed_gives_another_order(tmp_path: Path, parquet: Path) -> None:
    for seed in (1, 2):
        run(TfrecordParameters(seed=seed), parquet=parquet, tfrecord=tmp_path / f"{seed}")
    assert (read(tmp_path / "1", "train") != read(tmp_path / "2", "train")).any()


def test_shards_hold_whole_records(tmp_path: Path, parquet: Path) -> None:
    parameters = TfrecordParameters(prebatch_train_size=64, samples_per_shard=200)
    run(parameters, parquet=parquet, tfrecord=tmp_path / "out")
    spec = load_feature_spec(tmp_path / "out")
    assert spec.metadata["train"] == {"rows": ROWS, "prebatch_size": 64, "rows_per_file": [192, 192, 192, 124]}
    assert [path.name for path in spec.files("train")] == [f"part_{number}.tfrecord" for number in range(4)]


def test_records_read_the_same_without_their_index_and_metadata(tmp_path: Path, parquet: Path) -> None:
    run(TfrecordParameters(prebatch_train_size=64), parquet=parquet, tfrecord=tmp_path / "out")
    whole = read(tmp_path / "out", "train")
    (tmp_path / "out/train/part_0.tfrecord.index").unlink()
    spec = load_feature_spec(tmp_path / "out")
    bare = FeatureSpec(spec.features, spec.sources, spec.channels, {}, spec.folder)
    (tmp_path / "out/feature_spec.yaml").write_text(bare.to_yaml())
    np.testing.assert_array_equal(read(tmp_path / "out", "train"), whole)


def test_ragged_histories_are_padded_to_the_longest_of_both_splits(tmp_path: Path) -> None:
    ragged = samples(90, history=9, ragged=True)
    test = samples(40, history=11, ragged=True)
    artifact(tmp_path / "in", table(ragged), table(test))
    run(TfrecordParameters(), parquet=tmp_path / "in", tfrecord=tmp_path / "out")
    assert load_feature_spec(tmp_path / "out").features["cat_pos"].length == 11
    np.testing.assert_array_equal(sorted_rows(read(tmp_path / "out", "train")), sorted_rows(padded(ragged, 11)))


def test_ragged_histories_of_a_whole_mean_length_are_measured(tmp_path: Path) -> None:
    ragged = samples(4, history=4)
    for name in ("item_sequence", "cat_sequence"):
        ragged[name] = [[1, 2], [1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    artifact(tmp_path / "in", table(ragged), table(samples(2, history=3)))
    run(TfrecordParameters(), parquet=tmp_path / "in", tfrecord=tmp_path / "out")
    assert load_feature_spec(tmp_path / "out").features["item_pos"].length == 4


@pytest.mark.parametrize("integer", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_integers_of_any_width_are_read(tmp_path: Path, integer: pa.DataType) -> None:
    small = {
        n: [[v % 90 for v in r] if isinstance(r, list) else r % 90 for r in rows] for n, rows in samples(30).items()
    }
    artifact(tmp_path / "in", table(small, integer), table(small, integer))
    run(TfrecordParameters(), parquet=tmp_path / "in", tfrecord=tmp_path / "out")
    np.testing.assert_array_equal(sorted_rows(read(tmp_path / "out", "test")), sorted_rows(padded(small, 12)))


def test_fixed_size_and_large_lists_are_read(tmp_path: Path) -> None:
    columns = samples(30)
    plain = table(columns)
    kinds = [pa.list_(pa.int64(), 12), pa.large_list(pa.int64()), pa.list_(pa.int32(), 3), pa.large_list(pa.int16())]
    fields = [*plain.schema][:4] + [
        pa.field(field.name, kind) for field, kind in zip([*plain.schema][4:], kinds, strict=True)
    ]
    artifact(tmp_path / "in", plain.cast(pa.schema(fields)), plain)
    run(TfrecordParameters(), parquet=tmp_path / "in", tfrecord=tmp_path / "out")
    np.testing.assert_array_equal(sorted_rows(read(tmp_path / "out", "train")), sorted_rows(padded(columns, 12)))


def test_any_number_of_features_is_told_by_position(tmp_path: Path) -> None:
    rows = 20
    names = ["clicked", "age", "city", "movie", "watched", "skipped"]
    values = [[1] * rows, [7] * rows, [8] * rows, [9] * rows, [[3, 4, 5]] * rows, [[6]] * rows]
    data = pa.table(dict(zip(names, values, strict=True)))
    for split in ("train", "test"):
        write_parts(tmp_path / "in" / split, data)
    write_metadata(tmp_path / "in", {"age": 99, "city": 99, "movie": 99})
    described(tmp_path / "in", number_of_user_features=2)
    run(TfrecordParameters(), parquet=tmp_path / "in", tfrecord=tmp_path / "out")
    spec = load_feature_spec(tmp_path / "out")
    assert spec.channels == {
        "label": ("label",),
        "user_features": ("age", "city"),
        "target_item_features": ("movie_trgt",),
        "positive_history": ("movie_pos",),
        "negative_history": ("movie_neg",),
    }
    batch = next(Records(spec, "train").batches(1))
    assert {name: value.tolist() for name, value in batch.items()} == {
        "label": [1],
        "age": [7],
        "city": [8],
        "movie_trgt": [9],
        "movie_pos": [[3, 4, 5]],
        "movie_neg": [[6]],
    }


def test_the_vocabulary_is_handed_on(tmp_path: Path) -> None:
    folder = artifact(tmp_path / "in", table(samples(9)), table(samples(9)))
    (folder / "vocabulary").mkdir()
    (folder / "vocabulary" / "uid.parquet").write_bytes(b"ids and values")
    described(folder)
    (folder / "vocabulary" / "other.parquet").write_bytes(b"of nothing that the manifest lists")
    run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")
    assert load_feature_spec(tmp_path / "out").vocabularies == (
        Vocabulary("uid", "vocabulary/uid.parquet", 2, ("uid",)),
    )
    assert (tmp_path / "out" / "vocabulary" / "uid.parquet").read_bytes() == b"ids and values"
    assert [path.name for path in (tmp_path / "out" / "vocabulary").iterdir()] == ["uid.parquet"]


def test_only_the_parts_that_the_manifest_lists_are_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = artifact(tmp_path / "in", table(samples(30)), table(samples(9)))
    shutil.copyfile(folder / "train" / "part.0.parquet", folder / "train" / "part.1.parquet")
    assert run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out") == {"train": 30, "test": 9}
    assert "train/part.1.parquet: not listed in _manifest.json, so it is not read" in capsys.readouterr().out


@pytest.mark.parametrize("reader", [read, parse_with_tensorflow])
def test_a_validation_split_is_converted_like_the_others(tmp_path: Path, reader: Any) -> None:
    drawn = samples(41)
    folder = artifact(tmp_path / "in", table(samples(90)), table(samples(20)), validation=table(drawn))
    parameters = TfrecordParameters(prebatch_test_size=8, samples_per_shard=32)
    rows = run(parameters, parquet=folder, tfrecord=tmp_path / "out")
    assert rows == {"train": 90, "test": 20, "validation": 41}
    assert rows == open_artifact(tmp_path / "out").rows
    spec = load_feature_spec(tmp_path / "out")
    assert spec.metadata["validation"] == {"rows": 41, "prebatch_size": 8, "rows_per_file": [32, 9]}
    found = reader(tmp_path / "out", "validation")
    np.testing.assert_array_equal(sorted_rows(found), sorted_rows(padded(drawn, 12)))
    assert (found != padded(drawn, 12)).any()  # it is shuffled


def test_a_validation_split_leaves_the_other_splits_as_they_are(tmp_path: Path) -> None:
    train, test = table(samples(90)), table(samples(20))
    for name, validation in (("two", None), ("three", table(samples(41)))):
        artifact(tmp_path / name, train, test, validation=validation)
        run(TfrecordParameters(), parquet=tmp_path / name, tfrecord=tmp_path / f"{name}-out")
    two, three = content(tmp_path / "two-out"), content(tmp_path / "three-out")
    assert set(two) < set(three)
    assert {name for name in two if two[name] != three[name]} == {"feature_spec.yaml"}


def test_a_validation_split_without_samples_is_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = artifact(tmp_path / "in", table(samples(90)), table(samples(20)), validation=table(samples(9))[:0])
    assert run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out") == {"train": 90, "test": 20}
    assert "in/validation: holds no samples, so the records have no validation split" in capsys.readouterr().out
    spec = load_feature_spec(tmp_path / "out")
    assert set(spec.sources) == {"train", "test"} and "validation" not in spec.metadata
    assert not (tmp_path / "out" / "validation").exists()


def test_lists_are_padded_to_the_longest_of_the_validation_split_too(tmp_path: Path) -> None:
    longer = table(samples(20, history=13))
    folder = artifact(tmp_path / "in", table(samples(90)), table(samples(20)), validation=longer)
    run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")
    assert load_feature_spec(tmp_path / "out").features["item_pos"].length == 13


def test_side_tables_stay_with_the_records(tmp_path: Path, columns: dict[str, list]) -> None:
    source = artifact(tmp_path / "parquet", table(columns), table(columns))
    (source / SIDE_TABLES).mkdir()
    texts = pa.table({"id": [1, 2], "text": ["one", "two"]})
    pq.write_table(texts, source / SIDE_TABLES / "texts.parquet")
    adopt(source)
    run(TfrecordParameters(), parquet=source, tfrecord=tmp_path / "tfrecord")
    tables = side_tables(tmp_path / "tfrecord")
    assert read_side_table(tables, "texts") == texts
    with pytest.raises(KfrecError, match="no side table questions; the data set has texts"):
        read_side_table(tables, "questions")
    assert "texts" not in load_feature_spec(tmp_path / "tfrecord").features
