"""The registered model: raw rows in, the scores out that the evaluation wrote."""

from __future__ import annotations

import mlflow
import numpy as np
import pandas as pd
from mlflow import MlflowClient

from tests.predict.conftest import REGISTERED, Served


def test_a_notebook_gets_the_scores_of_the_evaluation(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    found = model.predict(pd.DataFrame(served.rows))
    np.testing.assert_allclose(found["probability"], served.scores, atol=1e-6)
    assert found["unknown_ids"].tolist() == [0] * len(served.scores)


def test_what_the_model_has_never_seen_is_counted(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    rows = pd.DataFrame([{"user": "nobody", "history": ["nothing", served.rows[0]["item"]], "item": "new"}])
    assert model.predict(rows)["unknown_ids"].tolist() == [3]


def test_its_example_signature_and_description_say_what_it_takes(served: Served, store: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{REGISTERED}@champion")
    assert model.metadata.signature.inputs.input_names() == ["user", "history", "item"]
    assert model.metadata.signature.outputs.input_names() == ["probability", "unknown_ids"]
    assert model.predict(model.input_example)["unknown_ids"].tolist() == [0, 0]
    version = MlflowClient(store, registry_uri=store).get_model_version_by_alias(REGISTERED, "champion")
    assert "`history`: ids of the items before, oldest first" in str(version.description)
