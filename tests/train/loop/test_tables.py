"""A built-in model with its tables where the parameters put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.models import Model
from components.models.tables.placement import sharding_of
from components.parameters import build, bytes_of
from components.scoring.model import load_model
from components.steps.catalog import worker_parameters
from components.train.loop.ranks import Alone
from components.train.loop.tables import build_placed, surveyed, table_memory
from tests.train.building import build_model
from tests.train.dataset import CATEGORIES, ITEMS, USERS, specification
from tests.train.loop.building import OneOfTwo

ROWS = USERS + ITEMS + CATEGORIES + 3


def placed(folder: Path, ranks: Alone | None = None, **given: Any) -> Model:
    parameters: Any = build(worker_parameters("din"), {"model_type": "din", "embedding_dim": 4, **given})
    ranks = ranks or OneOfTwo(1)
    memory = table_memory(parameters, ranks)
    return build_placed(registry.model("din"), parameters, specification(folder), ranks, 1, memory)


def table(model: Model) -> Any:
    return model.inputs.embedding.tables  # type: ignore[attr-defined]


def test_tables_that_fit_are_whole(tmp_path: Path) -> None:
    assert sharding_of(table(placed(tmp_path))) is None


def test_tables_beyond_the_memory_of_a_rank_are_divided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Weights and Adam's two moments: more than half of it, less than all.
    model = placed(tmp_path, table_memory=str(3 * 4 * 4 * ROWS - 1))
    whole = build_model(worker_parameters("din")(model_type="din", embedding_dim=4), specification(tmp_path), seed=1)
    assert sharding_of(table(model)) is not None
    np.testing.assert_array_equal(table(model).numpy(), table(whole).numpy()[1::2])


def test_tables_beyond_the_memory_of_all_ranks_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"the embedding tables of DIN need .* GB to train .* raise table_memory"):
        placed(tmp_path, table_memory="1k")


def test_tables_beyond_the_memory_of_the_only_rank_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"the embedding tables of DIN need .* use at least 7 ranks"):
        placed(tmp_path, Alone(), table_memory="1k")


def test_a_placement_by_name_wins(tmp_path: Path) -> None:
    model = placed(tmp_path, table_placement="rows", placed_tables="embedding_tables=columns")
    assert table(model).shape == (ROWS, 2)


def test_with_xla_auto_divides_nothing(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"would hold .* and without xla"):
        placed(tmp_path, table_memory=str(3 * 4 * 4 * ROWS - 1), xla=True)


@pytest.mark.parametrize(
    ("model_type", "given", "copies"),
    [
        ("din", {"optimizer": "sgd"}, 1),
        ("din", {"average_decay": 0.9}, 4),
        ("dlrm", {}, 1),
        ("dlrm", {"optimizer": "adam"}, 3),
        ("wide_and_deep", {}, 2),
        ("wide_and_deep", {"average_decay": 0.9}, 3),
        ("logistic_regression", {}, 3),
        ("popularity", {"optimizer": "sgd", "average_decay": 0.9}, 2),
    ],
)
def test_the_memory_to_train_is_that_of_the_tables_their_optimizers_state_and_their_averages(
    model_type: str, given: dict[str, Any], copies: float, tmp_path: Path
) -> None:
    spec = specification(tmp_path)
    channels = {**spec.channels, Channel.CATEGORICAL: spec.channels[Channel.TARGET]}
    parameters: Any = worker_parameters(model_type)(model_type=model_type, **given)
    described = FeatureSpec(spec.features, {}, channels)
    survey, found = surveyed(registry.model(model_type), parameters, described)
    whole = build_model(parameters, described, seed=1)
    tables = {table.variable.ref(): table.variable for table in whole.tables.values()}
    assert (survey.bytes, found) == (sum(4 * int(tf.size(each)) for each in tables.values()), copies)


@pytest.mark.parametrize("given", [{"table_placement": "rows"}, {"placed_tables": "embedding_tables=rank"}])
def test_xla_and_an_exchange_are_refused_in_one_line(given: dict[str, str]) -> None:
    with pytest.raises(KfrecError, match=r"XLA cannot compile the exchange of rows that .* ask for; turn xla off"):
        build(worker_parameters("din"), {"model_type": "din", "xla": True, **given})


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("0", 0), ("500", 500), ("1.5k", 1500), ("2Ki", 2048), ("3Gi", 3 * 2**30), ("1e3", 1000), ("1500m", 1.5)],
)
def test_a_quantity_is_so_many_bytes(quantity: str, expected: float) -> None:
    assert bytes_of(quantity) == expected


def test_a_model_of_tables_that_are_files_cannot_be_scored(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "feature_spec.yaml").write_text(specification(tmp_path).to_yaml())
    with pytest.raises(
        KfrecError, match="its tables were too large for a SavedModel and are files in tables; to score"
    ):
        load_model(tmp_path)
