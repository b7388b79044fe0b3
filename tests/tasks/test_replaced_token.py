"""Replaced tokens: exact metrics against loops, streamed ones against exact ones, the gate's interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.metrics import roc_auc
from components.registry import task
from components.tasks import NoParameters, Scores
from components.tasks.replaced_token.measure import loss_interval, loss_sums, losses_of
from components.text.outputs import MASKED, MASKED_CORRECT, MASKED_LOSS, PADDING, REPLACED, REPLACED_LOGIT
from components.train.loop.ranks import Alone

TASK = task("replaced_token")
NONE = NoParameters()


def scores(texts: int = 40, skill: float = 1.0, seed: int = 0) -> Scores:
    """Outputs of a model; replaced tokens score higher by ``skill``."""
    random = np.random.default_rng(0)
    replaced = (random.random((texts, 12)) < 0.2).astype(np.int8)
    replaced[np.arange(12) >= random.integers(4, 13, texts)[:, np.newaxis]] = PADDING
    masked = random.integers(1, 4, texts).astype("f")
    noise = np.random.default_rng(seed).normal(size=replaced.shape)
    return Scores(
        {},
        {
            REPLACED: replaced,
            REPLACED_LOGIT: (noise + skill * replaced - 1).astype("f"),
            MASKED: masked,
            MASKED_CORRECT: np.minimum(masked, random.integers(0, 3, texts)).astype("f"),
            MASKED_LOSS: (masked * random.random(texts)).astype("f"),
        },
    )


def expected(outputs: dict[str, np.ndarray]) -> dict[str, float]:
    losses, labels, logits = [], [], []
    for flags, values in zip(outputs[REPLACED], outputs[REPLACED_LOGIT], strict=True):
        for flag, value in zip(flags.tolist(), values.tolist(), strict=True):
            if flag != PADDING:
                probability = 1 / (1 + math.exp(-value))
                losses.append(-math.log(probability if flag else 1 - probability))
                labels.append(flag)
                logits.append(value)
    masked = outputs[MASKED].sum()
    return {
        "loss": outputs[MASKED_LOSS].sum() / masked + 50 * np.mean(losses),
        "auc": roc_auc(np.array(labels), np.array(logits)),
        "masked_accuracy": outputs[MASKED_CORRECT].sum() / masked,
    }


def test_metrics_are_those_of_every_token_but_padding() -> None:
    given = scores()
    metrics = TASK.measure(given, NONE).metrics
    for name, value in expected(dict(given.outputs)).items():
        assert metrics[f"test_{name}"] == pytest.approx(value, rel=1e-6)
    assert metrics["test_loss_low"] < metrics["test_loss"] < metrics["test_loss_high"]
    assert metrics["test_auc_low"] < metrics["test_auc"] < metrics["test_auc_high"]
    assert metrics["test_tokens"] == (given.outputs[REPLACED] >= 0).sum()
    assert TASK.value(given, NONE) == metrics["test_loss"]


def test_streamed_metrics_are_the_exact_ones() -> None:
    outputs = scores().outputs
    metrics = TASK.streaming(False, NONE)
    for part in (slice(0, 13), slice(13, 13), slice(13, 40)):
        metrics.update({}, {name: tf.constant(values[part]) for name, values in outputs.items()}, {})
    totals = [total.numpy() for total in metrics.totals(Alone())]
    found, wanted = metrics.result(totals), expected(dict(outputs))
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    assert found["auc"] == pytest.approx(wanted["auc"], abs=found["auc_error_bound"] + 1e-9)
    assert found["masked_accuracy"] == pytest.approx(wanted["masked_accuracy"], rel=1e-6)
    metrics.load(totals)
    np.testing.assert_array_equal(metrics.totals(Alone())[-1], totals[-1])
    metrics.reset()
    assert math.isnan(metrics.result([total.numpy() for total in metrics.totals(Alone())])["loss"])


def test_a_better_model_is_better_by_more_than_chance_and_equal_ones_are_not() -> None:
    good, poor = scores(skill=3.0, seed=1), scores(skill=0.0, seed=2)
    found = TASK.difference(good, poor, NONE, 500, 0.95, 0)
    assert found.high < 0  # lower is better
    assert found.estimate == pytest.approx(TASK.value(good, NONE) - TASK.value(poor, NONE))
    same = TASK.difference(good, good, NONE, 500, 0.95, 0)
    assert (same.low, same.estimate, same.high) == (0, 0, 0)


def test_the_interval_covers_the_loss_of_new_texts() -> None:
    """Of 60 samples of texts, about 57 intervals hold the loss of all."""
    everything = loss_sums(scores(texts=6000))
    truth, random = losses_of(everything.sum(0)), np.random.default_rng(3)
    covered = 0
    for _ in range(60):
        drawn = loss_interval([everything[random.integers(0, 6000, 150)]], samples=300)
        covered += int(drawn.low <= truth <= drawn.high)
    assert covered >= 50


@pytest.mark.parametrize(("skill", "vetoed"), [(0.0, True), (2.0, False)])
def test_a_model_that_finds_no_replaced_tokens_is_not_promoted(skill: float, vetoed: bool) -> None:
    metrics = TASK.measure(scores(skill=skill, seed=1), NONE).metrics
    reasons = TASK.vetoes(metrics, TASK.decision())
    assert bool(reasons) == vetoed
    assert not vetoed or "the model does not tell replaced tokens from original ones" in reasons[0]


def test_texts_without_replaced_tokens_are_refused_in_one_line() -> None:
    given = scores()
    outputs = dict(given.outputs) | {REPLACED: np.minimum(given.outputs[REPLACED], 0)}
    with pytest.raises(KfrecError, match="data: no tokens of the 40 test texts were replaced"):
        TASK.require(Scores({}, outputs), "data")
    TASK.require(given, "data")


def test_a_model_of_another_kind_is_refused_in_one_line() -> None:
    with pytest.raises(KfrecError, match="reads the output replaced_logit, and the model returns logit"):
        TASK.serve({"logit": tf.zeros([2])})


def test_the_report_names_the_loss_and_the_intervals() -> None:
    story = TASK.story(TASK.measure(scores(), NONE))
    assert story.headline.startswith("Test loss ") and "% replaced" in story.lead
