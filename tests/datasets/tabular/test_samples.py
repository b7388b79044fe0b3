"""Labels, splits and features of a table, compared with numbers worked out by hand."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from tests.datasets.tabular.tables import (
    CSV,
    SCHEMA,
    made,
    preprocess,
    raw_folder,
    samples,
    spec,
    vocabulary,
    with_columns,
)


def test_channels_hold_the_columns_by_role(tmp_path: Path) -> None:
    body = spec(made(tmp_path))
    assert body["channel_spec"] == {
        "label": ["bought"],
        "numerical": ["price", "price_filled"],
        "quantile": ["price_quantile"],
        "categorical": ["city", "price_bin"],
        "multihot": ["tags"],
    }
    assert body["feature_spec"]["tags"] == {"dtype": "int64", "cardinality": 3, "dimensions": [2]}


def test_a_number_has_its_quantile_among_the_training_rows(tmp_path: Path) -> None:
    output = made(tmp_path)
    # Known in training: 1, 2, 3; a missing number is in the middle, and one beyond them at the end.
    np.testing.assert_allclose(samples(output, "train")["price_quantile"], [0, 0.5, 0.5, 1], rtol=1e-6)
    np.testing.assert_allclose(samples(output, "test")["price_quantile"], [1, 1], rtol=1e-6)


def test_a_quantile_may_be_left_out(tmp_path: Path) -> None:
    output = made(tmp_path, schema=with_columns(price={"role": "numeric", "quantile": False}))
    assert "quantile" not in spec(output)["channel_spec"]
    assert "price_quantile" not in samples(output, "train")


def test_ids_go_by_falling_count_of_the_training_rows_and_then_by_text(tmp_path: Path) -> None:
    output = made(tmp_path)
    # Training rows: Rome three times, Oslo once; of the first two tags a three times, b once, c once.
    assert vocabulary(output, "city") == ["Rome", "Oslo"]
    assert vocabulary(output, "tags") == ["a", "b", "c"]
    assert samples(output, "train")["city"] == [1, 2, 1, 1]
    assert samples(output, "train")["tags"] == [[1, 2], [1], [], [3, 1]]


def test_a_missing_or_unknown_category_is_0(tmp_path: Path) -> None:
    found = samples(made(tmp_path), "test")
    assert found["city"] == [0, 0]
    assert found["tags"] == [[2], [0]]


def test_a_rare_category_is_0(tmp_path: Path) -> None:
    output = made(tmp_path, schema=with_columns(city={"role": "categorical", "at_least": 2}))
    assert vocabulary(output, "city") == ["Rome"]
    assert samples(output, "train")["city"] == [1, 0, 1, 1]


def test_a_number_is_standardised_by_the_training_rows(tmp_path: Path) -> None:
    output = made(tmp_path)
    # Known in training: 1, 2, 3; the median fills the gap.
    deviation = np.sqrt(2 / 3)
    np.testing.assert_allclose(samples(output, "train")["price"], np.array([-1, 0, 0, 1]) / deviation, rtol=1e-6)
    np.testing.assert_allclose(samples(output, "test")["price"], np.array([4, 2]) / deviation, rtol=1e-6)


def test_a_feature_tells_where_a_number_was_missing(tmp_path: Path) -> None:
    assert samples(made(tmp_path), "train")["price_filled"] == [0, 0, 1, 0]


def test_without_missing_numbers_in_training_there_is_no_such_feature(tmp_path: Path) -> None:
    output = made(tmp_path, CSV.replace("NA", "2.0").replace("6.0", "NA"))
    assert "price_filled" not in spec(output)["feature_spec"]
    assert samples(output, "test")["price"][0] == 0


def test_the_mean_fills_where_it_is_asked_for(tmp_path: Path) -> None:
    schema = with_columns(price={"role": "numeric", "fill": "mean", "scale": "none"})
    assert samples(made(tmp_path, CSV.replace("3.0", "6.0"), schema), "train")["price"] == [1, 2, 3, 6]


def test_a_logarithm_keeps_the_sign(tmp_path: Path) -> None:
    schema = with_columns(price={"role": "numeric", "log": True, "scale": "none"})
    found = samples(made(tmp_path, CSV.replace("3.0", "-3.0"), schema), "train")["price"]
    np.testing.assert_allclose(found, [np.log(2), np.log(3), np.log(2), -np.log(4)], rtol=1e-6)


def test_bins_are_ids_beside_the_number(tmp_path: Path) -> None:
    output = made(tmp_path, schema=with_columns(price={"role": "numeric", "bins": 3, "number": False}))
    assert spec(output)["feature_spec"]["price_bin"] == {"dtype": "int64", "cardinality": 3}
    assert samples(output, "train")["price_bin"] == [1, 2, 0, 3]
    assert samples(output, "test")["price_bin"] == [3, 3]
    assert "price" not in spec(output)["feature_spec"]


def test_bins_and_quantiles_of_a_logarithm_are_cut_on_the_numbers_themselves(tmp_path: Path) -> None:
    column = {"role": "numeric", "bins": 3, "log": True}
    output = made(tmp_path, CSV.replace("3.0", "-3.5"), with_columns(price=column))
    fitted = json.loads((output / "vocabulary/numbers.json").read_text())["numbers"]["price"]
    assert (fitted["edges"], fitted["knots"]) == ([1, 2], [-3.5, 1, 2])
    assert samples(output, "train")["price_bin"] == [2, 3, 0, 1]
    np.testing.assert_allclose(samples(output, "train")["price_quantile"], [0.5, 1, 0.5, 0], rtol=1e-6)


def test_a_column_of_few_values_has_a_bin_for_each_unless_it_states_its_bins(tmp_path: Path) -> None:
    rows = "y,few,many,new\n" + "".join(f"{i % 3 % 2},{i % 200 / 2},{i / 2},{i % 4 == 3:d}\n" for i in range(2000))
    schema = {
        "label": {"column": "y"},
        "split": {"by": "column", "column": "new", "test": [1]},
        "columns": {"few": {"role": "numeric"}, "many": {"role": "numeric"}},
    }
    output = made(tmp_path / "one", rows, schema)
    assert spec(output)["channel_spec"]["categorical"] == ["few_bin"]
    assert spec(output)["feature_spec"]["few_bin"]["cardinality"] == 150
    schema["columns"] = {"few": {"role": "numeric", "bins": 0}, "many": {"role": "numeric", "bins": 7}}
    assert spec(made(tmp_path / "other", rows, schema))["channel_spec"]["categorical"] == ["many_bin"]


def test_equal_values_fall_into_one_of_the_hash_buckets(tmp_path: Path) -> None:
    output = made(tmp_path, schema=with_columns(city={"role": "categorical", "buckets": 1000}))
    rome, oslo, *others = samples(output, "train")["city"]
    assert others == [rome, rome] and rome != oslo and min(rome, oslo) >= 1 and max(rome, oslo) <= 1000
    assert samples(output, "test")["city"][0] == 0
    assert spec(output)["feature_spec"]["city"]["cardinality"] == 1000


def test_hashed_lists_hold_no_missing_values(tmp_path: Path) -> None:
    schema = with_columns(tags={"role": "multihot", "longest": 2, "buckets": 50})
    found = samples(made(tmp_path, CSV.replace("a|b", "a||NA|b|c"), schema), "train")["tags"]
    assert [len(row) for row in found] == [2, 1, 0, 2]
    assert found[0][0] == found[1][0] == found[3][1]


GROUPED = "y,x,g\n" + "".join(f"{i % 2},{i},g{i // 3}\n" for i in range(300))
RANDOM: dict[str, Any] = {
    "label": {"column": "y"},
    "split": {"by": "random", "share": 0.3},
    "columns": {"x": {"role": "numeric", "scale": "none"}, "g": {"role": "group"}},
}


def test_a_random_split_never_cuts_a_group(tmp_path: Path) -> None:
    output = made(tmp_path, GROUPED, RANDOM)
    train, test = samples(output, "train")["g"], samples(output, "test")["g"]
    assert not set(train) & set(test)
    assert len(set(train)) + len(set(test)) == 100
    assert 15 <= len(set(test)) <= 45


def test_rows_of_a_group_share_an_id(tmp_path: Path) -> None:
    found = samples(made(tmp_path, GROUPED, RANDOM), "train")
    by_group: dict[int, set[int]] = {}
    for group, x in zip(found["g"], found["x"], strict=True):
        by_group.setdefault(group, set()).add(int(x) // 3)
    assert all(len(members) == 1 for members in by_group.values())


def test_another_seed_splits_otherwise(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", {"table.csv": GROUPED}, RANDOM)
    for seed in (1, 2):
        preprocess(raw, tmp_path / str(seed), seed=seed)
    assert samples(tmp_path / "1", "test")["x"] != samples(tmp_path / "2", "test")["x"]


SPLIT = """\
y,x,month,time
0,0,1,2013-10-01
1,1,10,2013-11-01 23:59
0,2,11,2013-11-02
1,3,11,2013-11-03 08:00
0,4,12,2013-11-04
1,5,1,2013-01-01
"""
Expected = dict[str, list[int]]
SPLITS: dict[str, tuple[dict[str, Any], Expected]] = {
    "values": ({"by": "column", "column": "month", "test": [11, "12"], "train": [1, 10]}, {"test": [2, 3, 4]}),
    "the newest": ({"by": "time", "column": "time", "share": 0.4}, {"test": [2, 3, 4]}),
    "since": ({"by": "time", "column": "time", "since": "2013-11-03"}, {"test": [3, 4]}),
    "since a number": ({"by": "time", "column": "x", "since": 3}, {"test": [3, 4, 5]}),
    "three values": (
        {"by": "column", "column": "month", "test": [11], "validation": [10, "12"]},
        {"train": [0, 5], "validation": [1, 4], "test": [2, 3]},
    ),
    "two shares of the newest": (
        {"by": "time", "column": "time", "share": 0.2, "validation_share": 0.33},
        {"train": [0, 5], "validation": [1, 2], "test": [3, 4]},
    ),
    "two times": (
        {"by": "time", "column": "time", "since": "2013-11-03", "validation_since": "2013-11-01"},
        {"train": [0, 5], "validation": [1, 2], "test": [3, 4]},
    ),
    "a time and a share": (
        {"by": "time", "column": "time", "since": "2013-11-03", "validation_share": 0.33},
        {"train": [0, 5], "validation": [1, 2], "test": [3, 4]},
    ),
    "a share and a time": (
        {"by": "time", "column": "time", "share": 0.33, "validation_since": "2013-11-01"},
        {"train": [0, 5], "validation": [1, 2], "test": [3, 4]},
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_the_splits_are_chosen(tmp_path: Path, name: str) -> None:
    split, expected = SPLITS[name]
    columns = {"x": {"role": "numeric", "scale": "none"}}
    output = made(tmp_path, SPLIT, {"label": {"column": "y"}, "split": split, "columns": columns, "drop": ["*"]})
    assert {name: samples(output, name)["x"] for name in expected} == expected
    assert (output / "validation").exists() == ("validation" in expected)


def test_random_shares_make_three_splits_that_share_no_row(tmp_path: Path) -> None:
    rows = "y,x\n" + "".join(f"{number % 2},{number}\n" for number in range(2000))
    columns = {"x": {"role": "numeric", "scale": "none"}}
    split = {"by": "random", "share": 0.3, "validation_share": 0.2}
    output = made(tmp_path, rows, {"label": {"column": "y"}, "split": split, "columns": columns})
    found = {name: samples(output, name)["x"] for name in ("train", "test", "validation")}
    assert sorted(value for values in found.values() for value in values) == list(range(2000))
    assert [round(len(found[name]) / 2000, 1) for name in found] == [0.5, 0.3, 0.2]


def test_nothing_is_fitted_on_validation_rows(tmp_path: Path) -> None:
    rows = "y,x,c,part\n0,1,a,1\n1,3,a,1\n0,100,b,2\n1,200,b,2\n0,5,a,3\n1,7,b,3\n"
    columns = {"x": {"role": "numeric"}, "c": {"role": "categorical"}}
    split = {"by": "column", "column": "part", "validation": [2], "test": [3]}
    output = made(tmp_path, rows, {"label": {"column": "y"}, "split": split, "columns": columns})
    assert samples(output, "train")["x"] == [-1, 1]  # mean 2, deviation 1
    assert samples(output, "validation")["x"] == [98, 198] and samples(output, "validation")["c"] == [0, 0]


def test_three_files_are_three_splits(tmp_path: Path) -> None:
    header, *lines = CSV.splitlines()
    parts = {"new.csv": lines[:2], "late.csv": lines[2:4], "old.csv": lines[4:]}
    split = {"by": "files", "test": ["new.*"], "validation": ["late.*"]}
    tables = {name: "\n".join([header, *part]) + "\n" for name, part in parts.items()}
    output = made(tmp_path, tables, {**SCHEMA, "split": split, "drop": ["month"]})
    assert [len(samples(output, name)["bought"]) for name in ("train", "validation", "test")] == [len(lines) - 4, 2, 2]


def test_files_are_the_splits(tmp_path: Path) -> None:
    schema = {**SCHEMA, "split": {"by": "files", "test": ["new.*"]}, "drop": ["month"]}
    output = made(tmp_path, {"old.csv": CSV, "new.csv": CSV}, schema)
    assert samples(output, "train") == samples(output, "test")


LABELS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "above": ({"column": "price", "above": 1.5, "missing": "drop"}, [0, 1, 1]),
    "below": ({"column": "price", "below": 3, "missing": "drop"}, [1, 1, 0]),
    "equals": ({"column": "city", "equals": "Rome", "missing": "drop"}, [1, 0, 1, 1]),
    "in": ({"column": "city", "in": ["Oslo", "Bonn"], "missing": "drop"}, [0, 1, 0, 0]),
    "a number in": ({"column": "price", "in": [2, 3, 6], "missing": "drop"}, [0, 1, 1]),
    "true": ({"column": "bought"}, [1, 0, 1, 0]),
}


@pytest.mark.parametrize("name", LABELS)
def test_the_label_is_a_comparison(tmp_path: Path, name: str) -> None:
    label, expected = LABELS[name]
    columns = {"tags": {"role": "multihot", "longest": 2}}
    schema = {**SCHEMA, "label": label, "columns": columns, "drop": ["*"]}
    text = CSV.replace("4.0,Bonn", "1.0,Bonn").replace("6.0,,b", "6.0,Rome,b")
    if name == "true":
        text = text.replace("\n1,", "\ntrue,").replace("\n0,", "\nFalse,")
    assert samples(made(tmp_path, text, schema), "train")[label["column"]] == expected


def test_names_of_other_letters_are_numbered(tmp_path: Path) -> None:
    rows = "куплен,город,цвет,column,t\n" + "1,a,b,c,1\n0,b,a,c,1\n1,a,a,c,2\n0,a,b,c,2\n"
    columns = {name: {"role": "categorical"} for name in ("город", "цвет")}
    schema = {**SCHEMA, "label": {"column": "куплен"}, "columns": columns, "drop": ["*"]}
    output = made(tmp_path, rows, {**schema, "split": {"by": "column", "column": "t", "test": [2]}})
    assert samples(output, "train") == {"column": [1, 0], "column_2": [1, 2], "column_3": [2, 1]}


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.string()])
def test_large_whole_numbers_are_numbers_and_times(tmp_path: Path, kind: pa.DataType) -> None:
    sizes, times = [2**60, 0, 2**61, 0], [1_700_000_000_000_000_000 + 10**9 * row for row in (0, 3, 1, 2)]
    table = pa.table({"y": [0, 1, 1, 0], "x": pa.array(sizes).cast(kind), "t": pa.array(times).cast(kind)})
    split = {"by": "time", "column": "t", "share": 0.5}
    schema = {"label": {"column": "y"}, "split": split, "columns": {"x": {"role": "numeric", "quantile": False}}}
    output = made(tmp_path, {"t.parquet": table}, schema)
    assert samples(output, "train") == {"y": [0, 1], "x": [-1, 1], "x_bin": [1, 2]}


@pytest.mark.parametrize("label", ["{column: y, equals: yes}", "{column: y, in: [yes, maybe]}"])
def test_a_word_that_yaml_reads_as_true_is_the_word_in_the_table(tmp_path: Path, label: str) -> None:
    schema = f"label: {label}\nsplit: {{by: column, column: test, test: [on]}}\ncolumns: {{x: {{role: categorical}}}}\n"
    output = made(tmp_path, "y,x,test\nYes,a,off\nno,b,off\nyes,a,on\nno,b,on\n", schema)
    assert samples(output, "train")["y"] == [1, 0] and samples(output, "test")["y"] == [1, 0]


def test_the_label_is_a_number(tmp_path: Path) -> None:
    columns = {"tags": {"role": "multihot", "longest": 2}}
    label = {"column": "price", "number": True, "missing": "drop"}
    output = made(tmp_path, CSV.replace("2.0", "-2.5"), {**SCHEMA, "label": label, "columns": columns, "drop": ["*"]})
    assert samples(output, "train")["price"] == [1.0, -2.5, 3.0]
    assert spec(output)["feature_spec"]["price"] == {"dtype": "float32"}
    assert spec(output)["channel_spec"]["label"] == ["price"]


def _zipped(text: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("inside.csv", text)
    return content.getvalue()


TABLES = {
    "table.csv.gz": gzip.compress(CSV.encode()),
    "table.csv.zip": _zipped(CSV),
    "table.parquet": pyarrow.csv.read_csv(io.BytesIO(CSV.encode())),
    "bom.csv": b"\xef\xbb\xbf" + CSV.encode(),
    "table.tsv": CSV.replace(",", "\t"),
    "headless.csv": CSV.split("\n", 1)[1],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_kind_of_file_gives_the_same_samples(tmp_path: Path, name: str) -> None:
    schema = dict(SCHEMA)
    schema |= {"delimiter": "\t"} if name == "table.tsv" else {}
    schema |= {"names": ["bought", "price", "city", "tags", "month"]} if name == "headless.csv" else {}
    expected, found = made(tmp_path / "csv"), made(tmp_path / "other", {name: TABLES[name]}, schema)
    for split in ("train", "test"):
        assert samples(found, split) == samples(expected, split)


def test_lists_and_whole_floats_of_parquet_are_read_as_of_csv(tmp_path: Path) -> None:
    table = pa.table(
        {
            "y": [0, 1, 0, 1],
            "shop": [1.0, None, 2.0, 1.0],
            "tags": [["a", None, "b"], [], None, ["b"]],
            "new": [0, 0, 1, 1],
        }
    )
    columns = {"shop": {"role": "categorical"}, "tags": {"role": "multihot", "longest": 3}}
    split = {"by": "column", "column": "new", "test": [1]}
    schema = {"label": {"column": "y"}, "split": split, "columns": columns}
    text = "y,shop,tags,new\n0,1,a|b,0\n1,,,0\n0,2,,1\n1,1,b,1\n"
    expected = made(tmp_path / "csv", text, schema)
    found = made(tmp_path / "parquet", {"table.parquet": table}, schema)
    for part in ("train", "test"):
        assert samples(found, part) == samples(expected, part)


def _large() -> str:
    random = np.random.default_rng(1)
    lines = [
        f"{random.integers(0, 2)},{random.normal() if random.random() < 0.9 else 'NA'},c{random.zipf(1.5) % 50},"
        f"{'|'.join(f't{tag}' for tag in random.integers(0, 9, random.integers(0, 4)))},{random.integers(1, 4)}\n"
        for _ in range(2000)
    ]
    return CSV.split("\n", 1)[0] + "\n" + "".join(lines)


@pytest.mark.slow
def test_samples_depend_neither_on_partitions_nor_on_workers(tmp_path: Path) -> None:
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "price": {"role": "numeric", "bins": 7}}}
    whole = made(tmp_path / "whole", _large(), schema)
    cut = made(tmp_path / "cut", _large(), schema, rows_per_partition=300, workers=2)
    for split in ("train", "test"):
        one, other = samples(whole, split), samples(cut, split)
        for name in ("price", "price_quantile"):
            np.testing.assert_allclose(one.pop(name), other.pop(name), rtol=1e-6)
        assert one == other


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (made(tmp_path / name, _large()) for name in ("first", "second"))
    for path in [*sorted(first.rglob("*.parquet")), first / "vocabulary" / "numbers.json"]:
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path


NEW = CSV.replace("Rome,a|b", "Oslo,b").replace("Oslo,a", "Perth,z").replace("1.0", "9.0")


def test_a_kept_vocabulary_encodes_new_rows(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    output = made(tmp_path / "new", NEW, workflow=str(old))
    assert vocabulary(output, "city") == ["Rome", "Oslo"]
    assert samples(output, "train")["city"] == [2, 0, 1, 1]
    # The mean 2 and the deviation of the old rows.
    np.testing.assert_allclose(samples(output, "train")["price"][0], 7 / np.sqrt(2 / 3), rtol=1e-6)
    # Perth and z, of the four cities and the five tags in training.
    assert spec(output)["metadata"]["encoding"]["out_of_vocabulary_rate"] == pytest.approx(2 / 8)


def test_records_carry_a_vocabulary_on(tmp_path: Path) -> None:
    from components.steps.catalog import TfrecordParameters
    from components.tfrecord.step import run

    run(TfrecordParameters(workers=1), parquet=made(tmp_path / "old"), tfrecord=tmp_path / "records")
    output = made(tmp_path / "new", NEW, workflow=str(tmp_path / "records"))
    assert samples(output, "train")["city"] == [2, 0, 1, 1]


def test_too_many_unknown_values_fit_a_new_vocabulary(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    output = made(tmp_path / "new", NEW, workflow=str(old), out_of_vocabulary_limit=0.2)
    assert vocabulary(output, "city") == ["Rome", "Oslo", "Perth"]
    assert spec(output)["metadata"]["encoding"]["vocabulary"] == "refitted"


def test_statistics_have_a_digest_that_a_kept_workflow_keeps(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    digests = [
        spec(output)["metadata"]["encoding"]["statistics"]
        for output in (old, made(tmp_path / "kept", NEW, workflow=str(old)), made(tmp_path / "fitted", NEW))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_kept_workflow_is_extended_by_new_columns_and_loses_those_that_go(tmp_path: Path) -> None:
    def without(*left_out: str) -> dict[str, Any]:
        columns = {name: each for name, each in SCHEMA["columns"].items() if name not in left_out}
        return {**SCHEMA, "columns": columns, "drop": list(left_out)}

    old = made(tmp_path / "old", schema=without("city"))
    grown = made(tmp_path / "grown", NEW, workflow=str(old), out_of_vocabulary_limit=1.0)
    assert vocabulary(grown, "tags") == vocabulary(old, "tags") and "Perth" in vocabulary(grown, "city")
    shrunk = made(tmp_path / "shrunk", NEW, without("tags"), workflow=str(grown), out_of_vocabulary_limit=1.0)
    assert vocabulary(shrunk, "city") == vocabulary(grown, "city") and "tags" not in samples(shrunk, "train")
    digests = [spec(output)["metadata"]["encoding"]["columns"] for output in (old, grown, shrunk)]
    assert digests[0] == digests[1] == digests[2]


def test_numbers_with_a_decimal_comma_are_read_where_the_schema_says_so(tmp_path: Path) -> None:
    with_commas = CSV.replace(",", ";").replace(".0", ",0")
    schema = {**SCHEMA, "delimiter": ";", "decimal": ","}
    found, expected = made(tmp_path / "commas", with_commas, schema), made(tmp_path / "points")
    for split in ("train", "test"):
        assert samples(found, split) == samples(expected, split)
