"""Bad parquet gives one line that names the file and the column, and leaves the earlier output as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from tests.tfrecord.parquet_data import artifact, samples, table, write_parts


def convert(folder: Path, train: pa.Table, **parameters: int) -> None:
    artifact(folder / "in", train, table(samples(20)), parts=2)
    run(TfrecordParameters(**parameters), parquet=folder / "in", tfrecord=folder / "out")


def refused(folder: Path, train: pa.Table, message: str, **parameters: int) -> None:
    with pytest.raises(KfrecError, match=re.escape(message)) as caught:
        convert(folder, train, **parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        (
            "item_sequence",
            30,
            [1_000_001] * 12,
            "part.1.parquet: column item_sequence has 12 ids above the cardinality",
        ),
        ("uid", 3, 2**33, "part.0.parquet: column uid has 1 ids above the cardinality 500 in feature_spec.yaml"),
        ("cat", 3, -4, "part.0.parquet: column cat has 1 negative ids"),
        ("label", 39, 2, "part.1.parquet: column label has 1 values that are not 0 or 1"),
        ("item", 5, None, "part.0.parquet: column item has 1 nulls"),
        ("cat_sequence", 5, None, "part.0.parquet: column cat_sequence has 1 nulls"),
        ("cat_sequence", 5, [1] * 11 + [None], "part.0.parquet: column cat_sequence has 1 nulls"),
        ("item", 3, 0, "part.0.parquet: column item has 1 of 20 ids that are 0 from row 0 on; ids start at 1"),
        ("uid", 23, 0, "part.1.parquet: column uid has 1 of 20 ids that are 0 from row 20 on; ids start at 1"),
        (
            "cat_sequence",
            5,
            [1] * 13,
            "part.0.parquet: column cat_sequence has 1 lists whose lengths differ from those of item_sequence",
        ),
        (
            "neg_cat_sequence",
            30,
            [1] * 4,
            "part.1.parquet: column neg_cat_sequence has 1 lists whose lengths differ from those of neg_item_sequence",
        ),
        ("cat_sequence", 5, [1] * 11, "part.0.parquet: column cat_sequence has 1 lists whose lengths differ from"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, column: str, row: int, value: object, message: str) -> None:
    columns = samples(40)
    columns[column][row] = value
    refused(tmp_path, table(columns), message)


def test_every_category_list_longer_than_its_item_list_is_named(tmp_path: Path) -> None:
    columns = samples(40)
    columns["cat_sequence"] = [[*row, 1] for row in columns["cat_sequence"]]
    refused(tmp_path, table(columns), "part.0.parquet: column cat_sequence has 20 lists whose lengths differ from")


def test_padding_in_a_history_is_no_id(tmp_path: Path) -> None:
    columns = samples(40)
    for name in ("item_sequence", "cat_sequence", "neg_item_sequence", "neg_cat_sequence"):
        columns[name] = [[0, *row[1:]] for row in columns[name]]
    convert(tmp_path, table(columns))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    folder = artifact(tmp_path / "in", table(samples(40)), table(samples(20)))
    write_parts(folder / "train", table(samples(40)).drop_columns(["neg_cat_sequence"]))
    adopt(folder)
    with pytest.raises(KfrecError, match=r"no column neg_cat_sequence, which feature_spec\.yaml describes; add it"):
        run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")


def test_columns_in_the_wrong_order_are_told_by_their_type(tmp_path: Path) -> None:
    columns = samples(40)
    swapped = {name: columns[name] for name in ("label", "item_sequence", "item", "cat", "uid", "cat_sequence")}
    swapped |= {name: columns[name] for name in columns if name not in swapped}
    refused(tmp_path, table(swapped), "column item_sequence is of type list<element: int64>, but it must hold integers")


def test_a_folder_that_only_metadata_describes_names_the_command_that_converts_it(tmp_path: Path) -> None:
    folder = artifact(tmp_path / "in", table(samples(40)), table(samples(20)))
    (folder / "feature_spec.yaml").unlink()
    adopt(folder)
    with pytest.raises(KfrecError, match=r"missing; .*python -m components\.feature_spec .* writes it"):
        run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")


def test_floats_are_refused(tmp_path: Path) -> None:
    data = table(samples(40))
    data = data.set_column(2, "item", data["item"].cast(pa.float64()))
    refused(tmp_path, data, "column item is of type double")


def test_a_prebatch_that_cannot_fit_in_memory_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, table(samples(40)), "prebatch_train_size=10000000", prebatch_train_size=10_000_000)


def empty_split(folder: Path) -> None:
    (folder / "test" / "part.0.parquet").unlink()


def truncate(folder: Path) -> None:
    path = folder / "train" / "part.1.parquet"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (empty_split, "test: no *.parquet files"),
        (truncate, "train/part.1.parquet: cannot be read as parquet"),
    ],
)
def test_a_damaged_folder_is_named(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    folder = artifact(tmp_path / "in", table(samples(40)), table(samples(20)), parts=2)
    damage(folder)
    adopt(folder)
    with pytest.raises(KfrecError, match=re.escape(message)):
        run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")


def test_a_failure_leaves_the_earlier_output_and_nothing_else(tmp_path: Path) -> None:
    columns = samples(40)
    convert(tmp_path, table(columns))
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    columns["uid"][39] = 501
    with pytest.raises(KfrecError):
        convert(tmp_path, table(columns))
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_specification_that_the_manifest_does_not_list_is_refused(tmp_path: Path) -> None:
    folder = artifact(tmp_path / "in", table(samples(40)), table(samples(20)))
    (folder / "feature_spec.yaml").rename(tmp_path / "feature_spec.yaml")
    adopt(folder)
    (tmp_path / "feature_spec.yaml").rename(folder / "feature_spec.yaml")
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: not listed in _manifest\.json; remove it, or accept it"):
        run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")


def test_the_validation_split_is_checked_like_the_others(tmp_path: Path) -> None:
    wrong = samples(30) | {"uid": [501] * 30}
    folder = artifact(tmp_path / "in", table(samples(30)), table(samples(20)), validation=table(wrong))
    message = r"validation/part\.0\.parquet: column uid has 30 ids above the cardinality 500"
    with pytest.raises(KfrecError, match=message):
        run(TfrecordParameters(), parquet=folder, tfrecord=tmp_path / "out")
    with pytest.raises(KfrecError, match="prebatch_test_size=1000000: a record of 34 values per sample would be too"):
        artifact(tmp_path / "in", table(samples(30)), table(samples(20)), validation=table(samples(9)))
        run(TfrecordParameters(prebatch_test_size=1_000_000), parquet=folder, tfrecord=tmp_path / "out")
