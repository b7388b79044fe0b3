"""docs/examples/gru4rec is a retrieval model in a package of its own, which trains and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components import registry
from components.contract import LOG_LIKELIHOOD
from components.feature_spec import Channel, Feature, FeatureSpec
from pipelines.cli import main
from tests.pipelines.conftest import Run, in_process, with_processes  # noqa: F401
from tests.pipelines.installed import installed

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with installed("gru4rec", tmp_path / "site", monkeypatch, EXAMPLES) as folder:
        yield folder


def test_it_is_about_a_hundred_lines(package: Path) -> None:
    assert sum(len(path.read_text().splitlines()) for path in package.glob("*.py")) <= 130


def test_the_dot_product_of_its_vectors_orders_as_the_likelihood() -> None:
    definition = registry.model("gru4rec")
    features = [Feature("item", "int32", 9), Feature("items", "int32", 9, 4)]
    channels = {Channel.TARGET: ("item",), Channel.POSITIVE: ("items",)}
    spec = FeatureSpec({feature.name: feature for feature in features}, {}, channels)
    model: Any = definition.build(definition.parameters(gru_width=8), spec, 1, False)
    batch = {"items": tf.tile(tf.constant([[0, 3, 1, 4]]), [9, 1]), "item": tf.range(1, 10)}
    products = tf.reduce_sum(model.user_vectors(batch) * model.target_vectors(batch), 1).numpy()
    likelihoods = model.outputs(batch)[LOG_LIKELIHOOD].numpy()
    np.testing.assert_allclose(products - products[0], likelihoods - likelihoods[0], atol=1e-5)
    assert np.exp(likelihoods).sum() == pytest.approx(1, rel=1e-5)
    _, terms = model.loss_terms(batch, {}, tf.ones([9], tf.bool))
    assert terms["next_item"].count.numpy().tolist() == [4] * 9


@pytest.mark.slow
def test_it_trains_on_events_and_lists(
    in_process: Callable[..., Run],  # noqa: F811
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    small = ("synthetic_users=150", "epochs=2", "gru_width=16", "catalogue_users=20", "tfrecord_workers=1")
    words = [word for value in small for word in ("--set", value)]
    run = in_process(tmp_path / "runs", "--model", "gru4rec", *words).summary
    assert 0 < run["metrics"]["test_ndcg"] < 1
    lists = tmp_path / "lists.parquet"
    given = ["--all", "--model", run["artifacts"]["model"], "--data", run["artifacts"]["tfrecord"]]
    assert main(["recommend", *given, "--top", "5", "--output", str(lists), "--workdir", str(tmp_path / "runs")]) == 0
    assert "pairs a user" not in capfd.readouterr().out
    assert pq.read_table(lists)["rank"].to_pylist()[:5] == [1, 2, 3, 4, 5]
