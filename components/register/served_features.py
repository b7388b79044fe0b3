"""The registered model as served by MLflow, if its data set encodes no raw rows.

MLflow copies this file into the model and runs it wherever the model is loaded, so it imports nothing of kfrec.
"""

import mlflow
import numpy as np
from mlflow.pyfunc import PythonModel


class ServedModel(PythonModel):
    """Maps feature values by name to scores."""

    def load_context(self, context):  # type: ignore[no-untyped-def]
        import tensorflow as tf

        self.model = tf.saved_model.load(context.artifacts["saved_model"])

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        import tensorflow as tf

        serve = self.model.signatures["serving_default"]
        kinds = serve.structured_input_signature[1]
        read = {name: tf.constant(np.asarray(values), kinds[name].dtype) for name, values in model_input.items()}
        outputs = serve(**read)
        return {name: values.numpy() for name, values in outputs.items()}


mlflow.models.set_model(ServedModel())
