"""A small data set and models for it: real TFRecords and real SavedModels, in a second, without any training.

Each item has a name and a hidden quality that depends on the name alone; a sample is clicked with that probability.
A model is a table from item to probability, so its true AUC is known by construction, and the same items can be given
other ids, as preprocessing newer data would.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import adopt
from components.feature_spec import Channel, Chunk, Feature, FeatureSpec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
HISTORY = 6
FIRST_ID = 3  # after padding, null and out of vocabulary
NAMES = tuple(f"B{number:03d}" for number in range(60))


def quality(name: str) -> float:
    """Probability that an item is clicked."""
    return 0.05 + 0.9 * (zlib.crc32(name.encode()) % 1000) / 1000


def ignorant(name: str) -> float:
    """A belief that knows the quality of every second item."""
    return quality(name) if int(name[1:]) % 2 else 0.5


def make_data(
    folder: Path,
    *,
    rows: int = 600,
    names: Sequence[str] = NAMES,
    vocabulary: bool = True,
    label: int | None = None,
    seed: int = 0,
    dataset: str = "",
    chosen: Sequence[tuple[int, Sequence[str], str]] = (),
    validating: Sequence[tuple[int, Sequence[str], str]] = (),
    seen_items: str = "",
) -> Path:
    """Writes a TFRecord artifact with a test split.

    Args:
        folder: where.
        rows: samples.
        names: items in the order of their ids, the first one being 3.
        vocabulary: whether the names are written too.
        label: the label of all samples, instead of a drawn one.
        seed: seed of the samples; the same seed draws the same items by name, whatever their ids.
        dataset: name of the data set that encodes raw rows for its models.
        chosen: user id, history and target of clicked samples that are written in place of drawn ones.
        validating: those of a validation split; there is none without them.
        seen_items: what the data say of items of histories, keep or exclude; empty says nothing.
    """
    import tensorflow as tf

    random = np.random.default_rng(seed)
    ids = {name: FIRST_ID + index for index, name in enumerate(names)}
    features = {
        "label": Feature("label", "bool"),
        "uid": Feature("uid", "int64", 50),
        "item_trgt": Feature("item_trgt", "int64", FIRST_ID + len(names) - 1),
        "item_pos": Feature("item_pos", "int64", FIRST_ID + len(names) - 1, HISTORY),
    }
    channels = {
        Channel.LABEL: ("label",),
        Channel.USER: ("uid",),
        Channel.TARGET: ("item_trgt",),
        Channel.POSITIVE: ("item_pos",),
    }
    for part in ("test", "train", "vocabulary"):
        (folder / part).mkdir(parents=True)
    samples: list[tuple[int, int, Sequence[str], str]] = [(1, *sample) for sample in chosen]
    for _ in range(0 if chosen else rows):
        target, *history = random.choice(sorted(names), 1 + HISTORY)
        length = random.integers(1, HISTORY + 1)
        clicked = random.random() < quality(str(target))
        drawn = int(random.integers(1, 51)), history[:length], str(target)
        samples.append((int(clicked) if label is None else label, *drawn))
    parts = {"test": samples, **({"validation": [(1, *sample) for sample in validating]} if validating else {})}
    for part, clicks in parts.items():
        (folder / part).mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(folder / part / "part_0.tfrecord")) as writer:
            for is_clicked, user, before, item in clicks:
                sample = {
                    "label": [is_clicked],
                    "uid": [user],
                    "item_trgt": [ids[item]],
                    "item_pos": [0] * (HISTORY - len(before)) + [ids[str(name)] for name in before],
                }
                fields = {k: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for k, v in sample.items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString())
    # A data set that reads raw files says how; without settings of its own it takes the defaults.
    metadata: dict[str, Any] = {"encoding": {"dataset": dataset, "reading": {}}} if dataset else {}
    if seen_items:
        metadata["encoding"]["sampling"] = {"seen_items": seen_items}
    if vocabulary:
        table = pa.table({"id": pa.array(ids.values(), pa.int32()), "value": list(ids)})
        pq.write_table(table, folder / "vocabulary" / "item.parquet")
        users = pa.table({"id": pa.array(range(1, 51), pa.int32()), "value": [f"U{n}" for n in range(1, 51)]})
        pq.write_table(users, folder / "vocabulary" / "uid.parquet")
        metadata["vocabulary"] = {
            "uid": {"file": "vocabulary/uid.parquet", "unknown": 0, "features": ["uid"]},
            "item": {"file": "vocabulary/item.parquet", "unknown": 2, "features": ["item_trgt", "item_pos"]},
        }
    sources = {part: Chunk(tuple(features), (f"{part}/part_0.tfrecord",)) for part in parts}
    spec = FeatureSpec(features, {"train": sources["test"], **sources}, channels, metadata, folder)
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    adopt(folder)
    return folder


def make_model(
    folder: Path,
    data: Path,
    names: Sequence[str] = NAMES,
    *,
    belief: Callable[[str], float] = quality,
    model_type: str = "sim",
    output: str = "probability",
    width: int = 0,
) -> Path:
    """Exports a model for a data set.

    Args:
        folder: where.
        data: folder of :func:`make_data`.
        names: the items of that data.
        belief: the model's score of an item by its name.
        model_type: the model's name.
        output: name of its output.
        width: copies of the score in a sample's output; 0 is the score itself.
    """
    import tensorflow as tf

    from components.train.export import save

    class Table(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(np.array([0.5] * FIRST_ID + [belief(name) for name in names], np.float32))

        @tf.function
        def serve(self, *, uid: tf.Tensor, item_trgt: tf.Tensor, item_pos: tf.Tensor) -> dict[str, tf.Tensor]:
            unused = 0.0 * tf.cast(uid + tf.reduce_sum(item_pos, 1), tf.float32)
            score = tf.gather(self.table, item_trgt) + unused
            return {output: tf.stack([score] * width, 1) if width else score}

    module = Table()
    shapes = {"uid": [None], "item_trgt": [None], "item_pos": [None, HISTORY]}
    read = {name: tf.TensorSpec(shape, tf.int64, name) for name, shape in shapes.items()}
    save(module, {"serving_default": module.serve.get_concrete_function(**read)}, folder / "saved_model")
    (folder / "feature_spec.yaml").write_text((data / "feature_spec.yaml").read_text())
    (folder / "vocabulary").mkdir()
    for path in (data / "vocabulary").glob("*.parquet"):
        (folder / "vocabulary" / path.name).write_bytes(path.read_bytes())
    (folder / "parameters.json").write_text(json.dumps({"model_type": model_type, "lr": 0.01, "epochs": 3}))
    epochs = [
        {
            "epoch": n,
            "train_loss": 0.7 - 0.05 * n,
            "train_auc": 0.70 + 0.04 * n,
            "validation_auc": 0.70 + 0.02 * n,
            "validation_logloss": 0.62 - 0.02 * n,
        }
        for n in (1, 2, 3)
    ]
    training = {
        "epochs": epochs,
        "train_auc": 0.82,
        "exported_epoch": 2,
        "outcome": "epoch 2 of 3 is the best: validation AUC 0.7400; exported",
        "train_samples_per_second": 51234.5,
        "time_to_train": 93.0,
    }
    (folder / "training.json").write_text(json.dumps(training))
    adopt(folder)
    return folder
