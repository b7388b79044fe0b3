"""A model whose log-odds of an item are known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import adopt
from components.feature_spec import load_feature_spec

INPUTS = ("uid", "item_trgt", "item_pos")


def make_known_model(
    folder: Path, data: Path, logits: Mapping[str, float], *, shared: bool = False, returns_logit: bool = True
) -> Path:
    """Exports a model for records with users, items and histories.

    The logit of an item is the one given, 0 where none is, plus 0.001 times the id of the newest item of the history if
    both ids are odd.

    Args:
        folder: where.
        data: records.
        logits: item to logit.
        shared: whether it has the signature for many targets of one user.
        returns_logit: whether it returns the logit beside the probability.
    """
    import tensorflow as tf

    from components.train.export import save

    spec = load_feature_spec(data)
    table = np.zeros((spec.features["item_trgt"].cardinality or 0) + 1, np.float32)
    vocabulary = pq.read_table(data / "vocabulary" / "item.parquet")
    for identity, name in zip(vocabulary["id"].to_pylist(), vocabulary["value"].to_pylist(), strict=True):
        table[identity] = logits.get(name, 0.0)

    def serve(*, uid: tf.Tensor, item_trgt: tf.Tensor, item_pos: tf.Tensor) -> dict[str, tf.Tensor]:
        newest = item_pos[:, -1]
        both = tf.cast((item_trgt % 2 == 1) & (newest % 2 == 1), tf.float32)
        unused = 0.0 * tf.cast(uid, tf.float32)
        logit = tf.gather(tf.constant(table), item_trgt) + 0.001 * both * tf.cast(newest, tf.float32) + unused
        return {"probability": tf.sigmoid(logit), **({"logit": logit} if returns_logit else {})}

    def signature(users: int | None) -> tf.types.experimental.ConcreteFunction:
        shapes = {"uid": [users], "item_trgt": [None], "item_pos": [users, spec.features["item_pos"].length]}
        specs = {name: tf.TensorSpec(shapes[name], tf.int64, name) for name in INPUTS}
        return tf.function(serve, autograph=False).get_concrete_function(**specs)

    signatures = {"serving_default": signature(None)} | ({"targets": signature(1)} if shared else {})
    folder.mkdir(parents=True)
    save(tf.Module(), signatures, folder / "saved_model")
    shutil.copyfile(data / "feature_spec.yaml", folder / "feature_spec.yaml")
    shutil.copytree(data / "vocabulary", folder / "vocabulary")
    (folder / "parameters.json").write_text(json.dumps({"model_type": "sim"}))
    adopt(folder)
    return folder


def add_counts(data: Path, counts: Mapping[str, int]) -> None:
    """Gives the vocabulary of items the counts of the sampling distribution, 0 where none is given."""
    path = data / "vocabulary" / "item.parquet"
    table = pq.read_table(path)
    column = pa.array([counts.get(name, 0) for name in table["value"].to_pylist()], pa.int64())
    pq.write_table(table.append_column("count", column).append_column("reviews", column), path)
    (data / "_manifest.json").unlink(missing_ok=True)
    adopt(data)


def make_known_retriever(folder: Path, data: Path, scores: Mapping[str, float]) -> Path:
    """Exports a model that retrieves by these scores, as the dot product of a user's 1 and an item's score.

    Args:
        folder: where.
        data: records with items and histories.
        scores: item to score; the others have 0.
    """
    import tensorflow as tf

    from components.train.export import save

    spec = load_feature_spec(data)
    table = np.zeros((spec.features["item_trgt"].cardinality or 0) + 1, np.float32)
    vocabulary = pq.read_table(data / "vocabulary" / "item.parquet")
    for identity, name in zip(vocabulary["id"].to_pylist(), vocabulary["value"].to_pylist(), strict=True):
        table[identity] = scores.get(name, 0.0)
    item = tf.TensorSpec([None], tf.int64, "item_trgt")
    history = tf.TensorSpec([None, spec.features["item_pos"].length], tf.int64, "item_pos")

    def of_items(*, item_trgt: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"vector": tf.gather(tf.constant(table), item_trgt)[:, tf.newaxis]}

    def of_users(*, item_pos: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"vector": tf.ones_like(item_pos[:, :1], tf.float32)}

    def serve(*, item_trgt: tf.Tensor, item_pos: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"log_likelihood": tf.gather(tf.constant(table), item_trgt) + 0.0 * tf.cast(item_pos[:, 0], tf.float32)}

    signatures = {
        "serving_default": tf.function(serve).get_concrete_function(item_trgt=item, item_pos=history),
        "user_vectors": tf.function(of_users).get_concrete_function(item_pos=history),
        "target_vectors": tf.function(of_items).get_concrete_function(item_trgt=item),
    }
    folder.mkdir(parents=True)
    save(tf.Module(), signatures, folder / "saved_model")
    shutil.copyfile(data / "feature_spec.yaml", folder / "feature_spec.yaml")
    shutil.copytree(data / "vocabulary", folder / "vocabulary")
    (folder / "parameters.json").write_text(json.dumps({"model_type": "sasrec"}))
    adopt(folder)
    return folder
