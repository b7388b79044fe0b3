"""Random samples of tables from a specification, as batches or parquet; Criteo and Outbrain as published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from components.artifacts import adopt
from components.datasets.criteo.columns import CATEGORICAL
from components.datasets.criteo.preprocess import specification as criteo_specification
from components.datasets.criteo.synthetic import cardinalities, power_law
from components.datasets.outbrain.features import BUCKETS
from components.datasets.outbrain.features import specification as outbrain_specification
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME

# Exponent of the ids' power law, as published for DLRM's synthetic data.
EXPONENT = 1.45
_CRITEO_VALUES = 100_000
_PART_ROWS = 65_536


def criteo() -> FeatureSpec:
    """The features of DLRM's samples."""
    return criteo_specification(dict(zip(CATEGORICAL, cardinalities(_CRITEO_VALUES), strict=True)), {})


def outbrain() -> FeatureSpec:
    """The features of Wide & Deep's samples."""
    return outbrain_specification(max(BUCKETS.values()), {})


def drawn(spec: FeatureSpec, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random samples: labels of probability 1/2, uniform floats, ids of the published power law, none missing."""
    random = np.random.default_rng(seed)
    samples = {}
    for name, feature in spec.features.items():
        shape = (rows,) if feature.length is None else (rows, feature.length)
        if feature.is_float:
            samples[name] = random.random(shape).astype(np.float32)
        elif feature.cardinality is None:
            samples[name] = random.integers(0, 2, shape).astype(np.int32)
        else:
            samples[name] = (power_law(random.random(shape), feature.cardinality, EXPONENT) + 1).astype(np.int32)
    return samples


def drawn_batch(spec: FeatureSpec, rows: int) -> dict[str, tf.Tensor]:
    """Drawn samples as a batch."""
    return {name: tf.constant(values) for name, values in drawn(spec, rows).items()}


def write_drawn(folder: Path, spec: FeatureSpec, train: int, test: int) -> Path:
    """Writes a parquet artifact of drawn samples; returns the folder."""
    for number, (split, rows) in enumerate((("train", train), ("test", test))):
        (folder / split).mkdir(parents=True)
        for part, first in enumerate(range(0, rows, _PART_ROWS)):
            columns = drawn(spec, min(_PART_ROWS, rows - first), seed=1000 * number + part)
            table = pa.table({name: pa.array(list(v) if v.ndim > 1 else v) for name, v in columns.items()})
            pq.write_table(table, folder / split / f"part.{part}.parquet", compression="lz4", use_dictionary=False)
    (folder / FILENAME).write_text(replace(spec, metadata={}).to_yaml())  # the ids have no vocabulary
    adopt(folder)
    return folder
