"""Records of texts with planted structure: each token is followed by one of three, so that a replaced one is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from components.artifacts import adopt
from components.feature_spec import Chunk, Feature, FeatureSpec
from components.text.special import SpecialTokens

VOCABULARY, LENGTH = 64, 32
SPECIAL = SpecialTokens(pad=0, unknown=1, cls=2, sep=3, mask=4)
_FIRST, _FOLLOWING = 5, 3


def specification(folder: Path, length: int = LENGTH) -> FeatureSpec:
    features = {
        "input_ids": Feature("input_ids", "int32", VOCABULARY - 1, length),
        "segment_ids": Feature("segment_ids", "int8", 1, length),
    }
    names = tuple(features)
    sources = {split: Chunk(names, (f"{split}/part_0.tfrecord",)) for split in ("train", "test")}
    return FeatureSpec(features, sources, {"tokens": names}, {"tokens": SPECIAL.to_dict()}, folder)


def texts(rows: int, seed: int, length: int = LENGTH) -> dict[str, np.ndarray]:
    """One segment each, of random length."""
    follows = np.random.default_rng(0).integers(_FIRST, VOCABULARY, (VOCABULARY, _FOLLOWING))
    random = np.random.default_rng(seed)
    tokens = np.zeros((rows, length), np.int64)
    tokens[:, 1] = random.integers(_FIRST, VOCABULARY, rows)
    for place in range(2, length):
        tokens[:, place] = follows[tokens[:, place - 1], random.integers(0, _FOLLOWING, rows)]
    ends = random.integers(length // 2, length + 1, rows)[:, np.newaxis]
    tokens = np.where(np.arange(length) < ends, tokens, SPECIAL.pad)
    tokens[:, 0] = SPECIAL.cls
    np.put_along_axis(tokens, ends - 1, SPECIAL.sep, 1)
    return {"input_ids": tokens, "segment_ids": np.zeros_like(tokens)}


def write_texts(folder: Path, train: int = 300, test: int = 60, length: int = LENGTH) -> Path:
    """Writes both splits and the specification, and accepts the folder as an artifact."""
    for split, rows, seed in (("train", train, 1), ("test", test, 2)):
        (folder / split).mkdir(parents=True)
        drawn = texts(rows, seed, length)
        with tf.io.TFRecordWriter(str(folder / split / "part_0.tfrecord")) as writer:
            for row in range(rows):
                feature = {
                    name: tf.train.Feature(int64_list=tf.train.Int64List(value=values[row]))
                    for name, values in drawn.items()
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    (folder / "feature_spec.yaml").write_text(specification(folder, length).to_yaml())
    adopt(folder)
    return folder
