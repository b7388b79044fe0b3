"""The registered model as served by MLflow, if its data set encodes raw rows.

MLflow copies this file into the model and runs it wherever the model is loaded; kfrec must be installed there.
"""

from pathlib import Path

import mlflow
import pandas as pd
from mlflow.exceptions import INVALID_PARAMETER_VALUE, MlflowException
from mlflow.pyfunc import PythonModel


class ServedModel(PythonModel):
    """Maps raw rows to scores and numbers of unknown ids, or rows without a candidate to ranked candidates."""

    def load_context(self, context):  # type: ignore[no-untyped-def]
        from components.scoring.served import Served

        # The files of a model or of a pair lie side by side.
        self.served = Served(Path(next(iter(context.artifacts.values()))).parent)

    # MLflow warns wherever it loads a model whose predict has no type hints.
    def predict(self, context, model_input: pd.DataFrame, params=None):  # type: ignore[no-untyped-def]
        from components.errors import KfrecError

        try:
            return self.served.predict(model_input, **(params or {}))
        except KfrecError as error:
            # Of other exceptions a server's answer has only the traceback.
            raise MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from None


mlflow.models.set_model(ServedModel())
