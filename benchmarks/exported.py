"""An exported model of reviews, with vocabularies, as the train step leaves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from components import registry
from components.artifacts import adopt
from components.datasets.histories.catalogue import Popularity, write_catalogue
from components.feature_spec import FeatureSpec
from components.feature_spec.vocabulary import positional_vocabulary
from components.models import Model
from components.train.export import export
from components.train.results import SAVED_MODEL


def export_model(folder: Path, model_type: str, model: Model, spec: FeatureSpec, sizes: Mapping[str, int]) -> Path:
    """Writes a model with vocabularies, whose values are A3, B3, C3 and so on.

    Args:
        folder: to write.
        model_type: of the model.
        model: with any weights.
        spec: the features; the positional ones of reviews.
        sizes: the largest ids of uid, item and cat.
    """
    lengths = {name: spec.features[name].length for name in model.serving_features}
    shapes = {name: tf.TensorSpec([None, *filter(None, [length])], tf.int32) for name, length in lengths.items()}
    export(model, registry.task(registry.model(model_type).task), shapes, folder / SAVED_MODEL)
    (folder / "vocabulary").mkdir()
    vocabularies = {}
    for (name, largest), letter in zip(sizes.items(), "ABC", strict=True):
        ids = np.arange(3, largest + 1, dtype=np.int32)
        file = f"vocabulary/{name}.parquet"
        pq.write_table(pa.table({"id": ids, "value": [f"{letter}{number}" for number in ids.tolist()]}), folder / file)
        vocabularies[name] = positional_vocabulary(name, file, spec.features).to_dict()
    items = np.arange(3, sizes["item"] + 1, dtype=np.int32)
    categories = (items % (sizes["cat"] - 3) + 3).astype(np.int32)
    write_catalogue(Popularity(items, categories, np.ones(len(items), np.int64)), None, sizes["item"], folder)
    notes = {"vocabulary": vocabularies, "encoding": {"dataset": "amazon_reviews"}}
    (folder / "feature_spec.yaml").write_text(replace(spec, metadata=notes).to_yaml())
    (folder / "parameters.json").write_text(json.dumps({"model_type": model_type}))
    adopt(folder)
    return folder
