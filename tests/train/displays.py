"""A small table of displays with ads, of which one is clicked, converted by the tfrecord step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import publishing
from components.feature_spec import Channel, Feature, FeatureSpec
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run as tfrecord

ADS, PLATFORMS, TOPICS, MOST_TOPICS = 30, 3, 8, 3
FEATURES = (
    Feature("clicked", "bool"),
    Feature("display_id", "int64"),
    Feature("ad_id", "int64", ADS),
    Feature("platform", "int64", PLATFORMS),
    Feature("topic_id_list", "int64", TOPICS, MOST_TOPICS),
    Feature("age", "float32"),
    Feature("similarity", "float32"),
)
CHANNELS = {
    Channel.LABEL: ("clicked",),
    Channel.GROUP: ("display_id",),
    Channel.CATEGORICAL: ("ad_id", "platform"),
    Channel.MULTIHOT: ("topic_id_list",),
    Channel.NUMERICAL: ("age", "similarity"),
}


def displays(number: int, first: int, seed: int) -> pa.Table:
    """Displays of 2 to 6 ads; which one is clicked hangs on the ad, a topic of the display, and the similarity."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 7, number)
    display = np.repeat(np.arange(first, first + number), sizes)
    rows = len(display)
    ad = random.integers(0, ADS + 1, rows)  # 0 is a rare one
    topics = [random.integers(1, TOPICS + 1, length).tolist() for length in random.integers(0, MOST_TOPICS + 1, number)]
    topics_of = [topics[index] for index in display - first]
    similarity = random.normal(size=rows).astype("f")
    wanted = np.array([3 in each for each in topics_of]) * (ad % 2)
    liking = (ad % 3 - 1.0) + 2.0 * wanted + similarity + random.gumbel(size=rows)
    best = np.lexsort((-liking, display))[np.append(0, np.cumsum(sizes)[:-1])]
    clicked = np.zeros(rows, np.int8)
    clicked[best] = 1
    return pa.table({
        "clicked": clicked,
        "display_id": display,
        "ad_id": ad.astype(np.int32),
        "platform": np.repeat(random.integers(0, PLATFORMS + 1, number), sizes).astype(np.int32),
        "topic_id_list": pa.array(topics_of, pa.list_(pa.int32())),
        "age": random.normal(size=rows).astype("f"),
        "similarity": similarity,
    })  # fmt: skip


def write_displays(
    folder: Path, train: int = 800, test: int = 250, prebatch_size: int = 0, grouped: bool = True
) -> Path:
    """Writes records with so many displays of each split; without groups the channel is left out.

    The displays of the validation split are those of the test split, so that a training and an evaluation agree.
    """
    channels = {name: listed for name, listed in CHANNELS.items() if grouped or name != Channel.GROUP}
    with publishing(folder / "parquet", step="preprocess") as staging:
        for split, number, first in (("train", train, 1), ("test", test, 1 + train), ("validation", test, 1 + train)):
            (staging.path / split).mkdir()
            table = displays(number, first, seed=first)
            pq.write_table(table, staging.path / split / "part.0.parquet")
            staging.rows[split] = len(table)
        spec = FeatureSpec({feature.name: feature for feature in FEATURES}, {}, channels)
        (staging.path / "feature_spec.yaml").write_text(spec.to_yaml())
    parameters = TfrecordParameters(
        workers=1, prebatch_train_size=prebatch_size, prebatch_test_size=prebatch_size, samples_per_shard=900
    )
    tfrecord(parameters, parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    return folder / "tfrecord"
