"""A small specification and batches that fit it."""

from collections.abc import Callable

import numpy as np
import pytest

from components.feature_spec import Feature, FeatureSpec
from components.parameters import parameters_of
from components.steps.catalog import WorkerParameters, worker_parameters

USERS, ITEMS, CATEGORIES = 7, 20, 5
LENGTH, SHORT = 8, 3
CITIES, TAGS, MOST_TAGS = 6, 5, 3

MakeSpec = Callable[..., FeatureSpec]
Batch = tuple[dict[str, np.ndarray], np.ndarray]


@pytest.fixture
def make_spec() -> MakeSpec:
    """A specification in the shape that the tfrecord step writes, with histories and with a table's columns.

    Keyword arguments replace channels or features.
    """

    def make(negative_length: int = SHORT, features: dict | None = None, channels: dict | None = None) -> FeatureSpec:
        described = {
            "label": Feature("label", "bool"),
            "uid": Feature("uid", "int64", USERS),
            "item_trgt": Feature("item_trgt", "int64", ITEMS),
            "cat_trgt": Feature("cat_trgt", "int64", CATEGORIES),
            "item_pos": Feature("item_pos", "int64", ITEMS, LENGTH),
            "cat_pos": Feature("cat_pos", "int64", CATEGORIES, LENGTH),
            "item_neg": Feature("item_neg", "int64", ITEMS, negative_length),
            "cat_neg": Feature("cat_neg", "int64", CATEGORIES, negative_length),
            "city": Feature("city", "int64", CITIES),
            "tags": Feature("tags", "int64", TAGS, MOST_TAGS),
            "price": Feature("price", "float32"),
            "age": Feature("age", "float32"),
        }
        listed = {
            "label": ("label",),
            "user_features": ("uid",),
            "target_item_features": ("item_trgt", "cat_trgt"),
            "positive_history": ("item_pos", "cat_pos"),
            "negative_history": ("item_neg", "cat_neg"),
            "categorical": ("city",),
            "multihot": ("tags",),
            "numerical": ("price", "age"),
        }
        return FeatureSpec({**described, **(features or {})}, {}, {**listed, **(channels or {})})

    return make


@pytest.fixture
def spec(make_spec: MakeSpec) -> FeatureSpec:
    return make_spec()


@pytest.fixture
def parameters() -> Callable[..., WorkerParameters]:
    """Small sizes for a model type."""

    def make(model_type: str = "sim", **changed: object) -> WorkerParameters:
        sizes = dict(
            embedding_dim=2,
            stage_one_mlp_dims=(6,),
            stage_two_mlp_dims=(6, 4),
            mlp_dims=(6, 4),
            aux_mlp_dims=(5, 4),
            long_seq_length=LENGTH - SHORT,
            deep_hidden_units=(6, 4),
            deep_dropout=0.0,
            dropout_rate=-1.0,
            repetition=False,
            user_dropout=0.0,
            bottom_mlp_dims=(12, 2),
            top_mlp_dims=(6, 4, 1),
        )
        group = worker_parameters(model_type)
        known = {parameter.name for parameter in parameters_of(group)}
        own = {name: value for name, value in sizes.items() if name in known}
        return group(**{"model_type": model_type, "seed": 1, **own, **changed})

    return make


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Features and labels; ``history`` gives the number of items of each sample, by default from 0 to all."""

    def make(rows: int, history: list[int] | None = None, seed: int = 0) -> Batch:
        random = np.random.default_rng(seed)
        lengths = np.array(history if history is not None else [i % (LENGTH + 1) for i in range(rows)], int)
        present = np.arange(LENGTH) >= LENGTH - lengths.reshape(-1, 1)

        def ids(cardinality: int, *shape: int) -> np.ndarray:
            return random.integers(1, cardinality + 1, shape, np.int32)

        features = {
            "uid": ids(USERS, rows),
            "item_trgt": ids(ITEMS, rows),
            "cat_trgt": ids(CATEGORIES, rows),
            "item_pos": ids(ITEMS, rows, LENGTH) * present,
            "cat_pos": ids(CATEGORIES, rows, LENGTH) * present,
            "item_neg": ids(ITEMS, rows, SHORT) * present[:, -SHORT:],
            "cat_neg": ids(CATEGORIES, rows, SHORT) * present[:, -SHORT:],
        }
        features = {name: values.astype(np.int32) for name, values in features.items()}
        features["city"] = random.integers(0, CITIES + 1, rows, np.int32)
        features["tags"] = random.integers(0, TAGS + 1, (rows, MOST_TAGS), np.int32)
        features |= {name: random.normal(size=rows).astype(np.float32) for name in ("price", "age")}
        return features, random.integers(0, 2, rows).astype(np.float32)

    return make
