"""A model without training whose logit is a weighted sum of its numbers, so that its true quality is known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from components.artifacts import publishing
from components.artifacts.folder import open_artifact


def make_linear_model(folder: Path, data: Path, weights: Mapping[str, float], bias: float = 0.0) -> Path:
    """Exports the model as the train step would.

    Args:
        folder: where.
        data: records of a table.
        weights: by feature, which is a number.
    """
    import tensorflow as tf

    from components.train.export import save

    @tf.function(autograph=False)
    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        logit = bias + sum(weight * features[name] for name, weight in weights.items())
        return {"probability": tf.sigmoid(logit), "logit": logit}

    signature = {name: tf.TensorSpec([None], tf.float32, name) for name in weights}
    with publishing(folder, step="train", inputs={"tfrecord": open_artifact(data)}) as staging:
        signatures = {"serving_default": serve.get_concrete_function(**signature)}
        save(tf.Module(), signatures, staging.path / "saved_model")
        for name in ("feature_spec.yaml", "profile.json"):
            shutil.copyfile(data / name, staging.path / name)
        shutil.copytree(data / "vocabulary", staging.path / "vocabulary")
        (staging.path / "parameters.json").write_text(json.dumps({"model_type": "logistic_regression"}))
        (staging.path / "training.json").write_text(json.dumps({"epochs": [{"epoch": 1, "validation_auc": 0.5}]}))
    return folder
