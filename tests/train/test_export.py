"""The description beside an exported SavedModel."""

from pathlib import Path

import tensorflow as tf

from components.scoring.model import SIGNATURE
from components.scoring.signature import read_signature
from components.train.export import save


def test_features_keep_their_capital_letters(tmp_path: Path) -> None:
    @tf.function(autograph=False)
    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probability": features["Unit_Price"] + features["city"]}

    shapes = {name: tf.TensorSpec([None], tf.float32, name) for name in ("city", "Unit_Price")}
    save(tf.Module(), {SIGNATURE: serve.get_concrete_function(**shapes)}, tmp_path / "saved_model")
    assert read_signature(tmp_path / "saved_model").inputs == ("Unit_Price", "city")
