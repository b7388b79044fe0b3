"""What is evaluated can be listed: items that a user has seen compete in both, or in neither."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from components.artifacts import adopt
from components.feature_spec import load_feature_spec
from components.inference.history import PeopleInContext
from components.inference.recommend import Delivery, write_lists
from components.models.sasrec import SasRecParameters
from components.models.sasrec.model import RANK, SasRec
from components.models.sasrec_knn import SasRecKnnParameters
from components.models.sasrec_knn.model import SasRecKnn
from components.scoring import RawModel, load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.choices import Choices, ranks_of
from components.steps.catalog import TfrecordParameters
from components.tasks.next_item import TASK
from components.tfrecord.step import run as tfrecord
from components.train.export import export
from tests.datasets.events.test_events import DAY, folder_of
from tests.datasets.events.test_events import csv as table_of
from tests.fakes.raw_rows import raw_rows
from tests.preprocess import running

K = 5


def records(folder: Path, seen_items: str) -> Path:
    """Of 40 users, who choose what they have chosen before in half of the cases."""
    random, rows = np.random.default_rng(1), []
    for user in range(40):
        chosen = [int(random.integers(30))]
        while len(chosen) < 20:
            chosen.append(int(random.choice(chosen) if random.random() < 0.5 else random.integers(30)))
        rows += [(f"u{user}", f"i{item}", DAY * (int(random.integers(5)) + 5 * n)) for n, item in enumerate(chosen)]
    raw = folder_of(folder / "raw", {"e.csv": table_of(rows, "user,item,timestamp")})
    given = {"dataset": "events", "negatives": "none", "max_sequence_length": 30, "seen_items": seen_items}
    running.preprocess(raw, folder / "parquet", **given, test_reviews=0.3)
    tfrecord(TfrecordParameters(), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    return folder / "tfrecord"


def exported(data: Path, folder: Path, mixed: bool = False, **parameters: Any) -> RawModel:
    """SASRec with drawn weights, alone or mixed with an item-kNN that has counted nothing."""
    spec, sizes = load_feature_spec(data), {"item_dim": 8, "attention_layers": 1, "feed_forward_dim": 8, **parameters}
    model = SasRecKnn(SasRecKnnParameters(**sizes), spec, 1) if mixed else SasRec(SasRecParameters(**sizes), spec, 1)
    items = model.sasrec.items if isinstance(model, SasRecKnn) else model.items
    items.assign(np.random.default_rng(2).normal(size=items.shape))
    lengths = {name: spec.features[name].length for name in model.serving_features}
    shapes = {name: tf.TensorSpec([None, *filter(None, [length])], tf.int32) for name, length in lengths.items()}
    folder.mkdir()
    export(model, TASK, shapes, folder / "saved_model")
    shutil.copy(data / "feature_spec.yaml", folder)
    shutil.copytree(data / "vocabulary", folder / "vocabulary")
    adopt(folder)
    return load_raw_model(folder)


@pytest.mark.parametrize("seen_items", ["exclude", "keep"])
def test_the_hit_rate_of_the_evaluation_is_that_of_the_lists(seen_items: str, tmp_path: Path) -> None:
    data = records(tmp_path, seen_items)
    model, samples = exported(data, tmp_path / "model"), raw_rows(data)
    histories, chosen = [row["history"] for row in samples], [row["item"] for row in samples]
    repeats = [item in history for item, history in zip(chosen, histories, strict=True)]
    assert any(repeats) == (seen_items == "keep")

    columns = {"history": pa.array(histories, pa.list_(pa.string())), "item": pa.array(chosen, pa.string())}
    evaluated = model.score(columns).outputs[RANK] <= K
    names = [str(place) for place in range(len(samples))]
    catalogue = Catalogue(model)
    people: PeopleInContext = iter([(pa.array(names), columns["history"], {})])
    write_lists(catalogue, people, K, Delivery(str(tmp_path / "lists.csv"), []), keep_seen=None)
    with (tmp_path / "lists.csv").open(newline="") as file:
        listed = {(row["user"], row["item"]) for row in csv.DictReader(file)}
    assert [pair in listed for pair in zip(names, chosen, strict=True)] == evaluated.tolist()
    assert 0 < evaluated.mean() < 1

    # Pairs of models are judged alike.
    choices = Choices(pa.array(names), columns["history"], columns["item"], np.arange(len(names)))
    assert (ranks_of(catalogue, choices) <= K).tolist() == evaluated.tolist()
