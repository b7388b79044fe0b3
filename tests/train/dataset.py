"""A small data set in which users like what they liked before, written as anyone would write TFRecords."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.artifacts import adopt
from components.feature_spec import Channel, Chunk, Feature, FeatureSpec

USERS, ITEMS, CATEGORIES = 40, 90, 9
HISTORY, NEGATIVES = 12, 4
LONG = 8  # what long_seq_length must be for these histories

_SINGLE = {"uid": USERS, "item": ITEMS, "cat": CATEGORIES}


def specification(
    folder: Path, prebatch_size: int = 0, noted: bool = True, splits: Sequence[str] = ("train", "test")
) -> FeatureSpec:
    """Describes the records of :func:`write_dataset`; unless ``noted``, as the public scripts do."""
    features = [Feature("label", "bool"), Feature("uid", "int64", USERS)]
    for kind, length in (("trgt", None), ("pos", HISTORY), ("neg", NEGATIVES)):
        features += [Feature(f"{name}_{kind}", "int64", _SINGLE[name], length) for name in ("item", "cat")]
    names = tuple(feature.name for feature in features)
    channels = {
        Channel.LABEL: names[:1],
        Channel.USER: names[1:2],
        Channel.TARGET: names[2:4],
        Channel.POSITIVE: names[4:6],
        Channel.NEGATIVE: names[6:8],
    }
    sources = {split: Chunk(names, (f"{split}/part_0.tfrecord",)) for split in splits}
    metadata = {split: {"prebatch_size": prebatch_size} for split in sources} if noted else {}
    return FeatureSpec({f.name: f for f in features}, sources, channels, metadata, folder)


def samples(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Draws samples; a user likes one category in three, and the label says whether the target is of it."""
    random = np.random.default_rng(seed)
    uid = random.integers(1, USERS + 1, rows)
    liked = uid % 3
    label = random.integers(0, 2, rows)

    def items(group: np.ndarray, length: int) -> np.ndarray:
        return random.integers(0, ITEMS // 3, (rows, length)) * 3 + group[:, None] + 1

    positive = items(liked, HISTORY)
    # Histories have different lengths; the padding is on the left.
    positive[np.arange(HISTORY) < random.integers(0, HISTORY, rows)[:, None]] = 0
    target = items(np.where(label, liked, (liked + 1) % 3), 1)[:, 0]
    negative = np.where(positive[:, -NEGATIVES:] > 0, random.integers(1, ITEMS + 1, (rows, NEGATIVES)), 0)
    drawn = {"label": label, "uid": uid}
    for kind, ids in (("trgt", target), ("pos", positive), ("neg", negative)):
        drawn[f"item_{kind}"] = ids
        drawn[f"cat_{kind}"] = np.where(ids > 0, (ids - 1) % CATEGORIES + 1, 0)
    return drawn


def write_dataset(
    folder: Path,
    train: int = 1000,
    test: int = 301,
    prebatch_size: int = 0,
    noted: bool = True,
    validation: int = 0,
    flipped: bool = False,
) -> Path:
    """Writes the splits and the specification, and accepts the folder as an artifact.

    The labels of the validation split may be ``flipped``: the more a model learns, the worse it is there.
    """
    splits = {"train": (train, 1), "test": (test, 2)} | ({"validation": (validation, 3)} if validation else {})
    for split, (rows, seed) in splits.items():
        (folder / split).mkdir(parents=True)
        drawn = samples(rows, seed)
        if split == "validation" and flipped:
            drawn["label"] = 1 - drawn["label"]
        with tf.io.TFRecordWriter(str(folder / split / "part_0.tfrecord")) as writer:
            step = prebatch_size or 1
            for start in range(0, rows, step):
                writer.write(_example({name: ids[start : start + step] for name, ids in drawn.items()}))
    (folder / "feature_spec.yaml").write_text(specification(folder, prebatch_size, noted, tuple(splits)).to_yaml())
    adopt(folder)
    return folder


def _example(values: dict[str, np.ndarray]) -> bytes:
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids.reshape(-1))) for name, ids in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
