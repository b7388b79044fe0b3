"""Synthetic samples in preprocessing's format, of any number, with the cardinalities of Amazon Books."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from components.artifacts import adopt
from components.datasets.histories.sample_files import SAMPLE, sample_writer
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.positional import positional_spec
from components.feature_spec.spec import FILENAME

USERS, ITEMS, CATEGORIES = 105_925, 1_209_081, 2_330
LENGTH, NEGATIVES = 100, 10
_PART_ROWS = 65_536


def sample_columns(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Samples by column: power-law items with fixed categories; half of the histories are shorter than 60.

    Labels depend on the categories of the target and of the newest history items, so a model can learn them.
    """
    random = np.random.default_rng(seed)
    lengths = np.minimum(random.geometric(1 / 80, rows), LENGTH)
    present = np.arange(LENGTH) >= LENGTH - lengths[:, None]

    def items(shape: tuple[int, ...]) -> np.ndarray:
        return (ITEMS * random.random(shape, np.float32) ** 3).astype(np.int32) + 1

    target, positive, negative = items((rows,)), items((rows, LENGTH)) * present, items((rows, NEGATIVES))
    negative *= present[:, -NEGATIVES:]
    category = {name: np.where(ids > 0, ids % CATEGORIES + 1, 0).astype(np.int32) for name, ids in
                (("target", target), ("positive", positive), ("negative", negative))}  # fmt: skip
    likes = (category["target"][:, None] // 256 == category["positive"][:, -5:] // 256).mean(1)
    label = random.random(rows) < 0.25 + 0.5 * likes
    return {
        "label": label.astype(np.int8),
        "uid": random.integers(1, USERS + 1, rows).astype(np.int32),
        "item": target,
        "cat": category["target"],
        "item_sequence": positive,
        "cat_sequence": category["positive"],
        "neg_item_sequence": negative,
        "neg_cat_sequence": category["negative"],
    }


def write_samples(folder: Path, train: int, test: int, seed: int = 1) -> Path:
    """Writes a parquet artifact with ``train`` and ``test`` samples; returns the folder."""
    for number, (split, rows) in enumerate((("train", train), ("test", test))):
        (folder / split).mkdir(parents=True)
        for part, first in enumerate(range(0, rows, _PART_ROWS)):
            columns = sample_columns(min(_PART_ROWS, rows - first), seed + 1000 * number + part)
            arrays = [
                pa.array(columns[f.name]) if columns[f.name].ndim == 1 else _lists(columns[f.name]) for f in SAMPLE
            ]
            with sample_writer(folder / split / f"part.{part}.parquet", SAMPLE) as writer:
                writer.write_table(pa.table(arrays, schema=SAMPLE))
    cardinalities = {"uid": USERS, "item": ITEMS, "cat": CATEGORIES}
    (folder / FILENAME).write_text(positional_spec(list(cardinalities.items()), 1, SAMPLE.names, folder, {}).to_yaml())
    adopt(folder)
    return folder


def _lists(values: np.ndarray) -> pa.ListArray:
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(values.reshape(-1)), type=SAMPLE.field("item_sequence").type
    )


def specification(
    users: int = USERS, items: int = ITEMS, categories: int = CATEGORIES, length: int = LENGTH
) -> FeatureSpec:
    """The features of these samples, for a model without files."""
    features = [
        Feature("label", "bool"),
        Feature("uid", "int64", users),
        *(Feature(f"{name}_trgt", "int64", n) for name, n in (("item", items), ("cat", categories))),
        *(Feature(f"{name}_pos", "int64", n, length) for name, n in (("item", items), ("cat", categories))),
        *(Feature(f"{name}_neg", "int64", n, NEGATIVES) for name, n in (("item", items), ("cat", categories))),
    ]
    channels = {
        Channel.LABEL: ("label",),
        Channel.USER: ("uid",),
        Channel.TARGET: ("item_trgt", "cat_trgt"),
        Channel.POSITIVE: ("item_pos", "cat_pos"),
        Channel.NEGATIVE: ("item_neg", "cat_neg"),
    }
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels)


def batch(rows: int, seed: int) -> dict[str, np.ndarray]:
    """A batch in the records' form: int32 by feature name."""
    columns = sample_columns(rows, seed)
    names = {
        "item": "item_trgt", "cat": "cat_trgt", "item_sequence": "item_pos", "cat_sequence": "cat_pos",
        "neg_item_sequence": "item_neg", "neg_cat_sequence": "cat_neg",
    }  # fmt: skip
    return {names.get(name, name): values.astype(np.int32) for name, values in columns.items()}
