"""Records of random tokens, to measure the speed of models of texts: ``python -m benchmarks.token_records FOLDER``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from components.artifacts import adopt
from components.feature_spec import Chunk, Feature, FeatureSpec
from components.text.special import SpecialTokens

# Ids of the published vocabulary.
SPECIAL = SpecialTokens(pad=0, unknown=100, cls=101, sep=102, mask=103)
_FIRST = 999


def specification(folder: Path, length: int, vocabulary: int, questions: bool = False) -> FeatureSpec:
    """The features of such texts.

    Args:
        folder: of the records.
        length: tokens of a text.
        vocabulary: number of tokens.
        questions: whether they are questions with answers.
    """
    features = [
        Feature("input_ids", "int32", vocabulary - 1, length),
        Feature("segment_ids", "int8", 1, length),
    ]
    channels: dict[str, tuple[str, ...]] = {"tokens": ("input_ids", "segment_ids")}
    if questions:
        features.append(Feature("p_mask", "int8", None, length))
        labels = ("start_position", "end_position", "is_impossible")
        features += [Feature(name, "bool" if name == labels[-1] else "int32") for name in labels]
        channels |= {"p_mask": ("p_mask",), "label": labels}
    names = tuple(feature.name for feature in features)
    sources = {split: Chunk(names, (f"{split}/part_0.tfrecord",)) for split in ("train", "test")}
    metadata = {"tokens": SPECIAL.to_dict(), "encoding": {"version_2": False}}
    return FeatureSpec({feature.name: feature for feature in features}, sources, channels, metadata, folder)


def write_tokens(folder: Path, rows: int, length: int, vocabulary: int, questions: bool) -> None:
    """Writes full texts of random tokens.

    Args:
        folder: to write.
        rows: texts of each split.
        length: tokens of a text.
        vocabulary: number of tokens.
        questions: whether they are questions with answers, for a fine-tuning.
    """
    import tensorflow as tf

    spec = specification(folder, length, vocabulary, questions)
    names = tuple(spec.features)
    random, middle = np.random.default_rng(0), length // 4
    for split in spec.sources:
        (folder / split).mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(folder / split / "part_0.tfrecord")) as writer:
            for _ in range(rows):
                tokens = random.integers(_FIRST, vocabulary, length)
                tokens[[0, middle, length - 1]] = SPECIAL.cls, SPECIAL.sep, SPECIAL.sep
                start = int(random.integers(middle + 1, length - 8))
                drawn = {
                    "input_ids": tokens,
                    "segment_ids": np.arange(length) > middle,
                    "p_mask": (np.arange(length) <= middle) & (np.arange(length) > 0),
                    "start_position": [start],
                    "end_position": [start + 5],
                    "is_impossible": [0],
                }
                values = {name: tf.train.Int64List(value=np.asarray(drawn[name]).astype(np.int64)) for name in names}
                example = {name: tf.train.Feature(int64_list=each) for name, each in values.items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=example)).SerializeToString())
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    adopt(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.token_records", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=4096, help="texts of each split; default %(default)s")
    parser.add_argument("--length", type=int, default=128, help="tokens of a text; default %(default)s")
    parser.add_argument("--vocabulary", type=int, default=30_522, help="number of tokens; default %(default)s")
    parser.add_argument("--questions", action="store_true", help="questions with answers")
    options = parser.parse_args()
    write_tokens(options.folder, options.rows, options.length, options.vocabulary, options.questions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
