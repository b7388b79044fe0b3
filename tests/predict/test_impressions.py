"""Raw rows of impressions are encoded as preprocessing encodes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets.criteo.columns import CATEGORICAL, LINE, NUMERICAL
from components.datasets.criteo.raw_rows import ImpressionRows
from components.errors import KfrecError
from components.evaluate.step import run as evaluate
from components.feature_spec import load_feature_spec
from components.records import Records
from components.register.step import run as register
from components.steps.catalog import STEPS, TfrecordParameters
from components.tfrecord.step import run as tfrecord
from pipelines.cli import main
from tests.datasets.criteo.raw import expected_vocabularies, preprocess, random_lines, raw_folder
from tests.fakes.reading_model import make_reading_model

INPUTS = (*NUMERICAL, *CATEGORICAL)
DAYS = {"day_0": random_lines(150, 1, values=40), "day_1": random_lines(60, 2, values=60)}
# Of the scores, which tell rows apart: records are shuffled.
THRESHOLD = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Records of two days with a model, and the raw rows of their test split as text."""
    folder = tmp_path_factory.mktemp("impressions")
    raw = raw_folder(folder / "raw", **DAYS)
    preprocess(raw, folder / "parquet", frequency_threshold=THRESHOLD, test_day_share=1.0)
    tfrecord(TfrecordParameters(workers=1), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    make_reading_model(folder / "model", folder / "tfrecord", INPUTS)
    return folder, pd.DataFrame(DAYS["day_1"], columns=LINE.names)


def _sorted(features: dict[str, np.ndarray]) -> np.ndarray:
    """Rows in an order of their ids, and of their numbers where those are equal, because records are shuffled."""
    flat = np.stack([features[name].astype(np.float64) for name in (*CATEGORICAL, *NUMERICAL)], axis=1)
    return flat[np.lexsort(flat.T[::-1])]


def _unknown(rows: pd.DataFrame) -> np.ndarray:
    """How many values of each row have no id, by a plain implementation."""
    known = expected_vocabularies(DAYS["day_0"], THRESHOLD)
    lacking = [
        rows[name].map(lambda value, ids=ids: bool(value) and value not in ids)
        for name, ids in zip(CATEGORICAL, known, strict=True)
    ]
    return np.sum(lacking, axis=0)


@pytest.mark.slow
def test_rows_become_the_samples_that_preprocessing_made(made: tuple[Path, pd.DataFrame]) -> None:
    folder, test = made
    spec = load_feature_spec(folder / "tfrecord")
    rows = ImpressionRows(spec, INPUTS)
    encoded = rows.encode({column.name: pa.array(test[column.name]) for column in rows.columns})
    samples = next(Records(spec, "test", features=list(INPUTS)).batches(1000))
    np.testing.assert_allclose(_sorted(dict(encoded.features)), _sorted(samples), rtol=1e-6)
    expected = _unknown(test)
    assert expected.sum() > 10
    np.testing.assert_array_equal(np.sum(list(encoded.unknown.values()), axis=0), expected)


@pytest.mark.slow
def test_a_notebook_and_the_command_get_the_scores_of_the_evaluation(
    made: tuple[Path, pd.DataFrame], store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import mlflow

    folder, test = made
    read = dict(tfrecord=folder / "tfrecord", model=folder / "model")
    evaluate(STEPS["evaluate"].of(experiment="served"), **read, evaluation=tmp_path / "evaluation")
    parameters = STEPS["register"].of(registered_model="served-impressions", experiment="served", auc_floor=0.01)
    register(parameters, **read, evaluation=tmp_path / "evaluation", registration=tmp_path / "registration")
    scores = np.sort(pq.read_table(tmp_path / "evaluation" / "predictions.parquet")["probability"].to_numpy())
    test.to_csv(tmp_path / "day.csv", index=False)
    capsys.readouterr()
    command = ["predict", "served-impressions/1", f"--input={tmp_path / 'day.csv'}", f"--output={tmp_path / 'out.csv'}"]
    assert main([*command, "--batch-size=7"]) == 0
    found = pd.read_csv(tmp_path / "out.csv", dtype=dict.fromkeys(CATEGORICAL, str))
    np.testing.assert_allclose(np.sort(found["probability"]), scores, atol=1e-6)
    np.testing.assert_array_equal(found["unknown_ids"], _unknown(test))
    assert f"{np.count_nonzero(_unknown(test))} rows have ids that the model has never seen" in capsys.readouterr().out
    assert list(found["label"]) == list(test["label"].astype(int))
    # A notebook has numbers with gaps; its rows need no label.
    loaded = mlflow.pyfunc.load_model("models:/served-impressions/1")
    typed = test.drop(columns="label").assign(**{name: pd.to_numeric(test[name]) for name in NUMERICAL})
    again = loaded.predict(typed.replace("", None))
    np.testing.assert_allclose(again["probability"], found["probability"], atol=1e-6)
    assert loaded.predict(loaded.input_example)["unknown_ids"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("int_1", pa.array(["1", "2.5"]), "column int_1 has '2.5', which is not an integer"),
        ("int_1", pa.array([1.0, 0.5]), "column int_1 has 0.5, which is not an integer"),
        ("int_1", pa.array([float("inf"), 1.0]), "column int_1 has inf"),
        ("int_1", pa.array([2**63, 1], pa.uint64()), "column int_1 has 9223372036854775808"),
        ("int_1", pa.array([True, False]), "column int_1 is of the type bool"),
        ("cat_1", pa.array(["0123456", None]), "column cat_1 has '0123456', which is not 8 hexadecimal digits"),
        ("cat_1", pa.array([12345678, 1]), "column cat_1 is of the type int64; give 8 hexadecimal digits as text"),
        ("cat_1", pa.array([["0"], []]), "column cat_1 is of the type list"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    made: tuple[Path, pd.DataFrame], column: str, values: pa.Array, told: str
) -> None:
    rows = ImpressionRows(load_feature_spec(made[0] / "tfrecord"), ["int_1", "cat_1"])
    fitting = {"int_1": pa.array(["", "-7.0"]), "cat_1": pa.nulls(2)}
    assert rows.encode(fitting).features["int_1"].tolist() == [0.0, 0.0]
    with pytest.raises(KfrecError, match=told.replace("[", r"\[")):
        rows.encode({**fitting, column: values})
