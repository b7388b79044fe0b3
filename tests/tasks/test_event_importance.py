"""What a model of the next item loses where a column of the events is shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np

from components.contract import LOG_LIKELIHOOD
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.event_columns import EventColumn, with_events
from components.feature_spec.spec import Chunk
from components.tasks.next_item import TASK, NextItemEvaluation
from components.tasks.next_item.baselines import controls, shuffled_columns
from components.tasks.scores import Controlled, Scores

ROWS, LENGTH = 3000, 5
KIND, DEVICE, PRICE = EventColumn("event"), EventColumn("device", is_known=True), EventColumn("price", is_number=True)
PARAMETERS = NextItemEvaluation(list_length=5)


def spec() -> FeatureSpec:
    features = [Feature("item", "int64", 9), Feature("item_sequence", "int64", 9, LENGTH)]
    channels = {Channel.TARGET: ("item",), Channel.POSITIVE: ("item_sequence",)}
    plain = FeatureSpec({feature.name: feature for feature in features}, {}, channels)
    found = with_events(plain, {KIND: 4, DEVICE: 3, PRICE: 9})
    chunk = Chunk(tuple(found.features), ())
    return FeatureSpec(found.features, {"train": chunk, "test": chunk}, found.channels, found.metadata)


def drawn() -> dict[str, np.ndarray]:
    """Histories of 1 to LENGTH events."""
    rng = np.random.default_rng(3)
    pads = np.arange(LENGTH) >= rng.integers(1, LENGTH + 1, (ROWS, 1))
    pads = pads[:, ::-1]
    samples = {
        column.sequence: np.where(pads, 0, rng.integers(2, largest + 1, pads.shape))
        for column, largest in ((KIND, 4), (DEVICE, 3), (PRICE, 9))
    }
    return samples | {DEVICE.field: rng.integers(2, 4, ROWS)}


def measured(users: np.ndarray) -> Any:
    """Of a model whose rank is 1 where the kind of the newest event tells so, and a bit better for a low price."""
    samples = drawn()
    chosen = samples[KIND.sequence][:, -1]

    def ranks(given: dict[str, np.ndarray]) -> np.ndarray:
        near = np.where(given[KIND.sequence][:, -1] == chosen, 1.0, 50.0)
        return near + (given[PRICE.sequence][:, -1] != samples[PRICE.sequence][:, -1])

    changed = {probe.name: ranks({**samples, **probe.change(samples)}) for probe in shuffled_columns(spec())}
    outputs = {"rank": ranks(samples), LOG_LIKELIHOOD: np.full(ROWS, -3.0)}
    rows = np.arange(0, ROWS, 2)
    scores = Scores({}, outputs, {"user": users})
    controlled = Controlled(scores, {}, 0, {}, rows, {name: values[rows] for name, values in changed.items()})
    return TASK.measure(Scores({}, outputs, {"user": users}, controlled=controlled), PARAMETERS)


def test_events_get_the_values_of_other_events_and_padding_stays() -> None:
    samples = drawn()
    kind, device, price = shuffled_columns(spec())
    assert (kind.name, device.name, price.name) == ("event", "device", "price")
    assert kind.changes == (KIND.sequence,) and device.changes == (DEVICE.sequence, DEVICE.field)
    for probe in (kind, device, price):
        for name, values in probe.change(samples).items():
            np.testing.assert_array_equal(values > 0, samples[name] > 0)
            np.testing.assert_array_equal(np.sort(values, axis=None), np.sort(samples[name], axis=None))
            assert (values != samples[name]).mean() > 0.1


def test_each_column_has_its_loss_and_one_that_only_costs_is_named() -> None:
    found = measured(np.arange(ROWS) // 2)
    first, second, third = found.metrics["importance"]
    assert (first["column"], second["column"], third["column"]) == ("event", "price", "device")
    assert first["low"] > second["high"] > second["low"] > 0
    assert third["ndcg_loss"] == 0 and third["low"] is None
    assert found.metrics["test_importance_rows"] == ROWS // 2
    (section,) = (each for each in TASK.story(found).sections if each.title == "What each column adds")
    assert "How much lower the NDCG@5 is on 1,500 test samples" in section.text
    assert "Shown to add nothing: device: +0.0000. Such a column only costs" in section.text
    assert "event:" not in section.text and section.figures[0].chart.count("<circle") == 3


def test_the_intervals_are_over_users() -> None:
    wide, narrow = (measured(users).metrics["importance"][1] for users in (np.arange(ROWS) // 100, np.arange(ROWS)))
    assert wide["ndcg_loss"] == narrow["ndcg_loss"]
    assert wide["low"] != narrow["low"] and wide["high"] != narrow["high"]


def test_nothing_is_shuffled_without_columns_or_samples_for_it() -> None:
    wanted = controls(spec(), PARAMETERS)
    assert wanted is not None and len(wanted.columns) == 3 and wanted.column_samples == 10_000
    without = controls(spec(), NextItemEvaluation(importance_samples=0))
    assert without is not None and not without.columns
    scores = Scores({}, {"rank": np.ones(50), LOG_LIKELIHOOD: np.zeros(50)})
    metrics = TASK.measure(Scores({}, scores.outputs, controlled=Controlled(scores, {}, 0)), PARAMETERS).metrics
    assert "importance" not in metrics
