"""Raw rows of tables are encoded as preprocessing encodes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from mlflow.exceptions import MlflowException

from components.artifacts import adopt
from components.datasets.tabular.raw_rows import TableRows
from components.errors import KfrecError
from components.evaluate.step import run as evaluate
from components.feature_spec import load_feature_spec
from components.preprocess.step import run as preprocess
from components.records import Records
from components.register.step import run as register
from components.scoring import load_raw_model
from components.steps.catalog import STEPS, TfrecordParameters
from components.tfrecord.step import run as tfrecord
from components.workflows.values import plain_type
from tests.fakes.reading_model import make_reading_model

SCHEMA = """\
label: {column: bought}
split: {by: column, column: day, test: [2]}
columns:
  price: {role: numeric, bins: 4}
  size: {role: numeric, log: true, number: false, bins: 3}
  weight: {role: numeric, log: true, fill: mean}
  kind: {role: categorical, at_least: 2}
  shop id: {role: categorical, buckets: 50}
  tags: {role: multihot, longest: 3}
  marks: {role: multihot, longest: 2, buckets: 9, separator: " "}
"""
# Of both splits, in the order of the records, since a label tells each row from the others in no other way.
RANDOM = np.random.default_rng(3)
ROWS = 300


def _table() -> pd.DataFrame:
    day = np.r_[np.ones(ROWS - 60, int), np.full(60, 2)]
    price = np.where(RANDOM.random(ROWS) < 0.1, "", RANDOM.normal(10, 4, ROWS).round(3).astype(str))
    return pd.DataFrame({
        "bought": RANDOM.integers(0, 2, ROWS), "day": day, "price": price, "size": RANDOM.integers(0, 9, ROWS),
        "weight": np.where(RANDOM.random(ROWS) < 0.1, "NA", RANDOM.exponential(5, ROWS).round(2).astype(str)),
        "kind": [f"kind {number}" for number in RANDOM.zipf(1.5, ROWS)],
        "shop id": RANDOM.integers(1000, 1100, ROWS),
        "tags": ["|".join(RANDOM.choice(list("abcdef"), count)) for count in RANDOM.integers(0, 5, ROWS)],
        "marks": [" ".join(RANDOM.choice(list("xyz"), count)) for count in RANDOM.integers(0, 4, ROWS)],
    })  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Records of a table, and the rows of their test split."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "raw").mkdir()
    (folder / "raw" / "schema.yaml").write_text(SCHEMA)
    table = _table()
    table.to_csv(folder / "raw" / "sales.csv", index=False)
    adopt(folder / "raw")
    parameters = STEPS["preprocess"].of(dataset="tabular", workers=1)
    preprocess(parameters, raw=folder / "raw", parquet=folder / "parquet")
    tfrecord(TfrecordParameters(workers=1), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    test = pd.read_csv(folder / "raw" / "sales.csv", dtype=str, keep_default_na=False)
    return folder, test[test["day"] == "2"].drop(columns=["bought", "day"])


def _sorted(features: dict[str, np.ndarray]) -> np.ndarray:
    """Rows in an order of their ids, and of their numbers where those are equal, because records are shuffled."""
    ids_first = sorted(features.values(), key=lambda values: values.dtype.kind == "f")
    flat = np.concatenate([values.reshape(len(values), -1).astype(np.float64) for values in ids_first], axis=1)
    return flat[np.lexsort(flat.T[::-1])]


def test_rows_become_the_samples_that_preprocessing_made(made: tuple[Path, pd.DataFrame]) -> None:
    folder, test = made
    spec = load_feature_spec(folder / "tfrecord")
    inputs = [name for name in spec.features if name != "bought"]
    of_price = {"price", "price_filled", "price_bin", "price_quantile"}
    assert of_price | {"size_bin", "size_quantile", "weight", "kind", "shop_id", "tags", "marks"} <= {*inputs}
    rows = TableRows(spec, inputs)
    encoded = rows.encode({column.name: pa.array(test[column.name]) for column in rows.columns}).features
    samples = next(Records(spec, "test", features=inputs).batches(1000))
    ours, theirs = (_sorted({name: given[name] for name in inputs}) for given in (encoded, samples))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_table_model_is_registered_with_its_columns(
    made: tuple[Path, pd.DataFrame], store: str, tmp_path: Path
) -> None:
    import mlflow

    folder, test = made
    spec = load_feature_spec(folder / "tfrecord")
    model = make_reading_model(
        tmp_path / "model", folder / "tfrecord", tuple(n for n in spec.features if n != "bought")
    )
    read = dict(tfrecord=folder / "tfrecord", model=model)
    evaluate(STEPS["evaluate"].of(experiment="served"), **read, evaluation=tmp_path / "evaluation")
    parameters = STEPS["register"].of(registered_model="served-table", experiment="served", auc_floor=0.01)
    register(parameters, **read, evaluation=tmp_path / "evaluation", registration=tmp_path / "registration")
    loaded = mlflow.pyfunc.load_model("models:/served-table/1")
    found = loaded.predict(test)["probability"]
    scores = pd.read_parquet(tmp_path / "evaluation" / "predictions.parquet")["probability"]
    np.testing.assert_allclose(np.sort(found), np.sort(scores), atol=1e-6)
    # A notebook has numbers where the table has text.
    typed = test.assign(price=pd.to_numeric(test["price"]), size=test["size"].astype(int))
    np.testing.assert_allclose(loaded.predict(typed)["probability"], found, atol=1e-6)
    # JSON mixes types in a column.
    mixed = test.assign(size=[value if row % 2 else float(value) for row, value in enumerate(test["size"])])
    np.testing.assert_allclose(loaded.predict(mixed)["probability"], found, atol=1e-6)
    # An exception of MLflow, whose message a server answers with.
    with pytest.raises(MlflowException, match="column kind holds values of several types, lists among them"):
        loaded.predict(test.assign(kind=[["a"], *test["kind"][1:]]))


def test_a_number_that_is_none_is_named(made: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    folder, test = made
    model = load_raw_model(make_reading_model(tmp_path / "model", folder / "tfrecord", ("price", "kind")))
    rows = {name: pa.array(test[name]) for name in ("price", "kind")}
    with pytest.raises(KfrecError, match="column price has 'dear', which is not a finite number"):
        model.score({**rows, "price": pa.array(["dear"] * len(test))})
    assert model.score({**rows, "kind": pa.array(["other"] * len(test))}).unknown_ids.tolist() == [1] * len(test)


def _encoder(made: tuple[Path, pd.DataFrame]) -> TableRows:
    return TableRows(load_feature_spec(made[0] / "tfrecord"), ["price", "kind", "tags"])


@pytest.mark.parametrize(
    "tags",
    [
        pa.array([[b"a", b"b"]]),
        pa.array([["a", "b"]], pa.list_(pa.string(), 2)),
        pa.array([["a", "b"]], pa.list_(pa.string_view())),
        pa.array(["a|b"], pa.string_view()),
        pa.array([b"a|b"]),
    ],
    ids=str,
)
def test_every_type_of_column_is_encoded_alike(made: tuple[Path, pd.DataFrame], tags: pa.Array) -> None:
    rows = {"price": pa.array([b"2.5"]), "kind": pa.array(["kind 1"]).dictionary_encode()}
    plain = {"price": pa.array([2.5]), "kind": pa.array(["kind 1"]), "tags": pa.array([["a", "b"]])}
    found = _encoder(made).encode({name: plain_type(name, column) for name, column in {**rows, "tags": tags}.items()})
    for name, values in _encoder(made).encode(plain).features.items():
        np.testing.assert_array_equal(found.features[name], values)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("price", pa.array([1e300]), "column price has 1e\\+300, which is not a finite number of float32"),
        ("price", pa.array(["1,234"]), "column price has '1,234', which is not a finite number"),
        ("tags", pa.array([[["a"]]]), "column tags is of the type list<.*; give a list of texts"),
        ("tags", pa.array([[{"a": 1}]]), "column tags is of the type list<.*; give a list of texts"),
        ("tags", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "column tags is of the type map<"),
        ("tags", pa.array(["['a', 'b']"]), "a list as programs write it; write the values with | between them"),
        ("kind", pa.array([["a"]]), "column kind is of the type list<.*; give one value a row"),
    ],
    ids=str,
)
def test_a_column_that_cannot_be_encoded_is_named(
    made: tuple[Path, pd.DataFrame], column: str, values: pa.Array, message: str
) -> None:
    rows = {"price": pa.array([1.0]), "kind": pa.array(["kind 1"]), "tags": pa.array(["a"]), column: values}
    with pytest.raises(KfrecError, match=message.replace("|", r"\|")):
        _encoder(made).encode(rows)
