"""Parquet whose columns feature_spec.yaml describes: floats, lists of any length, and a column that no model reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec, load_feature_spec
from components.records import Records
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run

FEATURES = [
    Feature("taken", "bool"), Feature("item", "int64", 9), Feature("tags", "int64", 5, 3), Feature("price", "float32"),
    Feature("weights", "float32", None, 2), Feature("display", "int64"),
]  # fmt: skip
CHANNELS = {
    Channel.LABEL: ("taken",), "item": ("item",), "tags": ("tags",), "numbers": ("price", "weights"),
    "group": ("display",),
}  # fmt: skip
ROWS: dict[str, Any] = {
    "display": [7, 7, 0, 2_000_000_000],
    "price": [0.5, -1.25, 3e38, 0.0],
    "weights": [[], [0.5], [1.5, -2.5], [4.0, 8.0]],
    "tags": [[1, 5], [], [2, 3, 4], [5]],
    "item": [1, 2, 9, 4],
    "taken": [True, False, True, False],
}


def written(folder: Path, metadata: dict[str, Any] | None = None, **changed: Any) -> Path:
    spec = FeatureSpec({feature.name: feature for feature in FEATURES}, {}, CHANNELS, metadata or {})
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        pq.write_table(pa.table(ROWS | changed), folder / split / "part.0.parquet")
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    (folder / "vocabulary").mkdir()
    for vocabulary in spec.vocabularies:
        (folder / vocabulary.file).write_bytes(b"ids and values")
    adopt(folder)
    return folder


def read(folder: Path, split: str = "train") -> dict[str, np.ndarray]:
    (batch,) = Records(load_feature_spec(folder), split).batches(10)
    order = np.argsort(batch["item"])
    return {name: values[order] for name, values in batch.items()}


@pytest.mark.parametrize("prebatch", [0, 3])
def test_floats_and_lists_come_back_as_they_were(tmp_path: Path, prebatch: int) -> None:
    parquet = written(tmp_path / "parquet")
    run(TfrecordParameters(prebatch_train_size=prebatch), parquet=parquet, tfrecord=tmp_path / "records")
    found = read(tmp_path / "records")
    assert found["price"].dtype == found["weights"].dtype == np.float32
    np.testing.assert_array_equal(found["price"], np.array([0.5, -1.25, 0.0, 3e38], "f"))
    np.testing.assert_array_equal(found["weights"], [[0.0, 0.0], [0.0, 0.5], [4.0, 8.0], [1.5, -2.5]])
    np.testing.assert_array_equal(found["tags"], [[0, 1, 5], [0, 0, 0], [0, 0, 5], [2, 3, 4]])
    np.testing.assert_array_equal(found["display"], [7, 7, 2_000_000_000, 0])
    np.testing.assert_array_equal(found["taken"], [1, 0, 0, 1])


def test_any_tensorflow_program_reads_them(tmp_path: Path) -> None:
    import tensorflow as tf

    run(TfrecordParameters(), parquet=written(tmp_path / "parquet"), tfrecord=tmp_path / "records")
    spec = load_feature_spec(tmp_path / "records")
    described = {
        name: tf.io.FixedLenFeature([feature.length or 1], tf.float32 if feature.is_float else tf.int64)
        for name, feature in spec.features.items()
    }
    parsed = [tf.io.parse_single_example(record, described) for record in tf.data.TFRecordDataset(spec.files("train"))]
    parsed.sort(key=lambda row: int(row["item"][0]))
    np.testing.assert_array_equal([row["price"][0].numpy() for row in parsed], np.array([0.5, -1.25, 0.0, 3e38], "f"))


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"price": [0.5, None, 1.0, 2.0]}, "column price has 1 nulls from row 0 on"),
        ({"price": [0.5, float("nan"), float("inf"), 2.0]}, "column price has 2 values that are not finite"),
        ({"weights": [[], [float("inf")], [], []]}, "column weights has 1 values that are not finite"),
        ({"price": ["a", "b", "c", "d"]}, "column price is of type string, but it must hold numbers"),
        ({"tags": [1, 2, 3, 4]}, "column tags is of type int64, but it must hold lists of integers"),
        ({"item": [1.5, 2.0, 9.0, 4.0]}, "column item is of type double, but it must hold integers"),
        ({"item": [1, 2, 10, 4]}, "column item has 1 ids above the cardinality 9 in feature_spec.yaml"),
        ({"display": [7, -1, 0, 2]}, "column display has 1 negative ids"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, changed: dict[str, Any], line: str) -> None:
    parquet = written(tmp_path / "parquet", **changed)
    with pytest.raises(KfrecError) as raised:
        run(TfrecordParameters(), parquet=parquet, tfrecord=tmp_path / "records")
    assert line in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "records").exists()


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    parquet = written(tmp_path / "parquet")
    pq.write_table(
        pa.table({name: ROWS[name] for name in ROWS if name != "price"}), parquet / "test" / "part.0.parquet"
    )
    adopt(parquet)
    with pytest.raises(KfrecError, match=r"has no column price, which feature_spec\.yaml describes"):
        run(TfrecordParameters(), parquet=parquet, tfrecord=tmp_path / "records")


def test_a_record_of_the_other_type_is_named(tmp_path: Path) -> None:
    run(TfrecordParameters(), parquet=written(tmp_path / "parquet"), tfrecord=tmp_path / "records")
    path = tmp_path / "records" / "feature_spec.yaml"
    for before, after, told in (
        ("price:\n    dtype: float32", "price:\n    dtype: int64", "feature price is not an int64 list"),
        (
            "item:\n    dtype: int64\n    cardinality: 9",
            "item:\n    dtype: float32",
            "feature item is not a float list",
        ),
    ):
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))
        adopt(tmp_path / "records")
        with pytest.raises(KfrecError, match=told):
            read(tmp_path / "records")
        path.write_text(text)


def test_vocabularies_are_handed_on_as_described(tmp_path: Path) -> None:
    described = {"things": {"file": "vocabulary/all.parquet", "unknown": 0, "features": ["item", "tags"]}}
    parquet = written(tmp_path / "parquet", {"vocabulary": described})
    run(TfrecordParameters(), parquet=parquet, tfrecord=tmp_path / "records")
    assert load_feature_spec(tmp_path / "records").metadata["vocabulary"] == described
    assert (tmp_path / "records" / "vocabulary" / "all.parquet").read_bytes() == b"ids and values"


def test_files_beside_the_vocabularies_are_handed_on(tmp_path: Path) -> None:
    parquet = written(tmp_path / "parquet")
    (parquet / "vocabulary" / "means.json").write_bytes(b"{}")
    adopt(parquet)
    run(TfrecordParameters(), parquet=parquet, tfrecord=tmp_path / "records")
    assert (tmp_path / "records" / "vocabulary" / "means.json").read_bytes() == b"{}"


def test_a_vocabulary_that_is_described_and_missing_is_named(tmp_path: Path) -> None:
    parquet = written(tmp_path / "parquet", {"vocabulary": {"item": {"file": "vocabulary/i.parquet", "unknown": 0}}})
    (parquet / "vocabulary" / "i.parquet").unlink()
    adopt(parquet)
    with pytest.raises(KfrecError, match=r"vocabulary/i\.parquet: missing or not listed in the manifest"):
        run(TfrecordParameters(), parquet=parquet, tfrecord=tmp_path / "records")
