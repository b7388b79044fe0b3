"""A small data set with users, histories, items and categories, as records, without any preprocessing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import adopt
from components.feature_spec import Channel, Chunk, Feature, FeatureSpec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ITEMS, CATEGORIES, USERS, LENGTH = 40, 8, 60, 12
FIRST_ID, UNKNOWN = 3, 2
FEATURES = ("label", "uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos")


def specification(folder: Path = Path()) -> FeatureSpec:
    """The specification of two training files and one test file, with vocabularies of users and items."""
    features = {
        "label": Feature("label", "bool"),
        "uid": Feature("uid", "int64", USERS + FIRST_ID),
        "item_trgt": Feature("item_trgt", "int64", ITEMS + FIRST_ID),
        "cat_trgt": Feature("cat_trgt", "int64", CATEGORIES + FIRST_ID),
        "item_pos": Feature("item_pos", "int64", ITEMS + FIRST_ID, LENGTH),
        "cat_pos": Feature("cat_pos", "int64", CATEGORIES + FIRST_ID, LENGTH),
    }
    channels = {
        Channel.LABEL: ("label",),
        Channel.USER: ("uid",),
        Channel.TARGET: ("item_trgt", "cat_trgt"),
        Channel.POSITIVE: ("item_pos", "cat_pos"),
    }
    vocabularies = {
        "uid": {"file": "vocabulary/uid.parquet", "unknown": UNKNOWN, "features": ["uid"]},
        "item": {"file": "vocabulary/item.parquet", "unknown": UNKNOWN, "features": ["item_trgt", "item_pos"]},
    }
    train, test = (Chunk(FEATURES, names) for names in (("train/a", "train/b"), ("test/a",)))
    return FeatureSpec(features, {"train": train, "test": test}, channels, {"vocabulary": vocabularies}, folder)


def category_of(items: np.ndarray) -> np.ndarray:
    return np.where(items < FIRST_ID, items, FIRST_ID + items % CATEGORIES)


def draw(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Samples whose label depends on whether the newest item of the history has the candidate's category."""
    random = np.random.default_rng(seed)
    items = FIRST_ID + (ITEMS * random.random(rows) ** 2).astype(int)
    histories = random.integers(FIRST_ID, FIRST_ID + ITEMS, (rows, LENGTH))
    histories[np.arange(LENGTH) < random.integers(0, LENGTH - 1, rows)[:, None]] = 0
    alike = random.random(rows) < 0.4
    histories[alike, -1] = items[alike]
    clicked = random.random(rows) < np.where(category_of(histories[:, -1]) == category_of(items), 0.8, 0.3)
    users = random.integers(FIRST_ID, FIRST_ID + USERS, rows)
    return {"label": clicked.astype(int), "uid": users, "item_trgt": items, "cat_trgt": category_of(items),
            "item_pos": histories, "cat_pos": category_of(histories)}  # fmt: skip


def write(folder: Path, splits: Mapping[str, Mapping[str, np.ndarray]], counts: np.ndarray | None = None) -> Path:
    """Writes samples by file name, such as "train/a", as an artifact.

    Args:
        folder: where.
        splits: of every file of :func:`specification`.
        counts: how often each item occurs; None writes a vocabulary without counts.
    """
    import tensorflow as tf

    for part in ("train", "test", "vocabulary"):
        (folder / part).mkdir(parents=True)
    for name, samples in splits.items():
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for row in range(len(samples["label"])):
                fields = {
                    each: tf.train.Feature(int64_list=tf.train.Int64List(value=np.atleast_1d(values[row]).tolist()))
                    for each, values in samples.items()
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString())
    ids = np.arange(FIRST_ID, FIRST_ID + ITEMS)
    columns = {"id": ids.astype(np.int32), "value": [f"B{each}" for each in ids]}
    if counts is not None:
        columns |= {"count": counts, "reviews": counts}
    pq.write_table(pa.table(columns), folder / "vocabulary" / "item.parquet")
    users = np.arange(FIRST_ID, FIRST_ID + USERS)
    table = pa.table({"id": users.astype(np.int32), "value": [f"U{each}" for each in users]})
    pq.write_table(table, folder / "vocabulary" / "uid.parquet")
    spec = specification(folder)
    rows = {split: [len(splits[file]["label"]) for file in chunk.files] for split, chunk in spec.sources.items()}
    noted = {split: {"rows": sum(each), "prebatch_size": 0, "rows_per_file": each} for split, each in rows.items()}
    body = FeatureSpec(spec.features, spec.sources, spec.channels, {**noted, **spec.metadata}, folder)
    (folder / "feature_spec.yaml").write_text(body.to_yaml())
    adopt(folder)
    return folder
