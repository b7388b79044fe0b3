"""Replaced tokens: exact metrics against loops, streamed ones against exact ones, the gate's interval."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.metrics import roc_auc
from components.registry import task
from components.tasks import Controlled, Scores
from components.tasks.replaced_token import ReplacedTokenEvaluation
from components.tasks.replaced_token.baselines import BIGRAM, UNIGRAM, TokenCounts, controls
from components.tasks.replaced_token.measure import loss_interval, loss_sums, losses_of
from components.text.outputs import CORRUPTED, MASKED, MASKED_CORRECT, MASKED_LOSS, PADDING, REPLACED, REPLACED_LOGIT
from components.train.loop.ranks import Alone
from tests.train.texts import LENGTH, SPECIAL, VOCABULARY, specification, texts

TASK = task("replaced_token")
NONE = ReplacedTokenEvaluation()


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


def corrupted(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Texts in which each token is one of the three that may follow the one before, some replaced by any other."""
    tokens, random = texts(rows, seed)["input_ids"], np.random.default_rng(seed)
    drawn = random.integers(5, VOCABULARY, tokens.shape)
    is_replaced = (tokens > SPECIAL.mask) & (random.random(tokens.shape) < 0.1) & (drawn != tokens)
    labels = np.where(tokens == SPECIAL.pad, PADDING, is_replaced).astype(np.int8)
    return {CORRUPTED: np.where(is_replaced, drawn, tokens), REPLACED: labels}


def fitted(train: np.ndarray) -> TokenCounts:
    counts = TokenCounts("input_ids", VOCABULARY)
    counts.fit([{"input_ids": train[:50]}], [{"input_ids": train[50:]}])
    return counts


def test_the_baselines_are_the_ratios_of_their_formula() -> None:
    train, test = texts(100, seed=1)["input_ids"], corrupted(8, seed=2)
    found = fitted(train).scores(test)
    rows = [[int(token) for token in row if token] for row in train]
    tokens = Counter(token for row in rows for token in row)
    total = tokens.total() + 0.5 * VOCABULARY
    p = {token: (tokens[token] + 0.5) / total for token in range(VOCABULARY)}
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    once, twice = (1 + sum(count == times for count in pairs.values()) for times in (1, 2))
    discount = once / (once + 2 * twice)

    def given(before: int, after: int) -> float:
        owned = [count for (first, _), count in pairs.items() if first == before]
        if not owned:
            return p[after]
        kept = max(pairs[before, after] - discount, 0) + discount * len(owned) * p[after]
        return kept / sum(owned)

    for number, (text, flags) in enumerate(zip(test[CORRUPTED], test[REPLACED], strict=True)):
        others = slice(1 - number % 2, None, 2)
        drawn = Counter(test[CORRUPTED][others][test[REPLACED][others] == 1].tolist())
        row = [int(token) for token in text[flags != PADDING]]
        for place, token in enumerate(row):
            r = (drawn[token] + 100 * p[token]) / (drawn.total() + 100)
            unigram, bigram = (
                math.log(r / p[token]),
                math.log(r / (given(row[place - 1], token) if place else p[token])),
            )
            if place + 1 < len(row):
                bigram += math.log(p[row[place + 1]] / given(token, row[place + 1]))
            assert found[UNIGRAM][number, place] == pytest.approx(unigram)
            assert found[BIGRAM][number, place] == pytest.approx(bigram)


def controlled(skill: float) -> Scores:
    """A model that scores as the pairs of tokens do, and by ``skill`` better or worse."""
    given = scores(texts=400)
    test = corrupted(400, seed=2)
    others = fitted(texts(300, seed=1)["input_ids"]).scores(test)
    logits = (others[BIGRAM] + skill * test[REPLACED]).astype("f")
    model = replace(given, outputs={**given.outputs, **test, REPLACED_LOGIT: logits})
    return replace(model, controlled=Controlled(model, others, 300))


def test_an_evaluation_states_how_far_the_model_is_above_pairs_of_tokens() -> None:
    metrics = TASK.measure(controlled(skill=1.0), NONE).metrics
    assert metrics["test_bigram_auc"] == metrics["test_baseline_auc"] > metrics["test_unigram_auc"] + 0.1
    assert metrics["test_auc_above_baseline"] == pytest.approx(metrics["test_auc"] - metrics["test_bigram_auc"])
    assert 0 < metrics["test_auc_above_baseline_low"] < metrics["test_auc_above_baseline"]
    assert not [*TASK.vetoes(metrics, TASK.decision()), *TASK.baseline_vetoes(metrics, TASK.decision())]
    assert "pairs of tokens" in str(TASK.story(TASK.measure(controlled(skill=1.0), NONE)).first)


def test_a_model_that_pairs_of_tokens_beat_is_not_promoted() -> None:
    metrics = TASK.measure(controlled(skill=-1.0), NONE).metrics
    (reason,) = TASK.baseline_vetoes(metrics, TASK.decision())
    assert reason.startswith("the model does not beat the built-in baseline: test replaced-token AUC")
    assert not TASK.baseline_vetoes(metrics, TASK.decision(require_baseline=False))
    assert list(TASK.remarks(metrics)) == [reason]


def test_the_baselines_need_texts_of_both_splits(tmp_path: Path) -> None:
    spec = specification(tmp_path)
    found = controls(spec, NONE)
    assert found is not None and found.baselines is not None and found.baselines.features == ("input_ids",)
    assert controls(spec, ReplacedTokenEvaluation(baseline_texts=0)) is None
    assert controls(replace(spec, sources={"test": spec.sources["test"]}), NONE) is None
    assert found.baselines.scores({CORRUPTED: np.zeros((2, LENGTH))}) == {}  # not fitted
