"""The registered model as served by MLflow, if its data set encodes raw rows.

MLflow copies this file into the model and runs it wherever the model is loaded; kfrec must be installed there.
"""

from pathlib import Path

import mlflow
from mlflow.pyfunc import PythonModel


class ServedModel(PythonModel):
    """Maps raw rows to scores and numbers of unknown ids."""

    def load_context(self, context):  # type: ignore[no-untyped-def]
        from components.scoring import load_raw_model

        self.model = load_raw_model(Path(context.artifacts["saved_model"]).parent)

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        import pandas as pd
        import pyarrow as pa

        read = {column.name for column in self.model.columns}
        rows = {name: pa.array(model_input[name], from_pandas=True) for name in model_input.columns if name in read}
        scored = self.model.score(rows)
        score, unknown = self.model.outputs
        return pd.DataFrame({score: scored.values, unknown: scored.unknown_ids})


mlflow.models.set_model(ServedModel())
