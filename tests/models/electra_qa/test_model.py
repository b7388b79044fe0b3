"""ELECTRA for questions: the head against NumPy, its loss, spans, and the learning rate of each layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec
from components.models.electra_qa import ElectraQaParameters, depth_of
from components.models.electra_qa.model import NEVER, AnswerHead, ElectraQa
from components.models.loss import loss_of
from components.models.names import name_of
from components.parameters import build
from components.steps.catalog import worker_parameters
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS

LENGTH, WIDTH, BEAM = 12, 8, 3
Make = Callable[..., ElectraQa]


def specification(version_2: bool = True) -> FeatureSpec:
    features = {
        "input_ids": Feature("input_ids", "int32", 40, LENGTH),
        "segment_ids": Feature("segment_ids", "int8", 1, LENGTH),
        "p_mask": Feature("p_mask", "int8", None, LENGTH),
        "start_position": Feature("start_position", "int32"),
        "end_position": Feature("end_position", "int32"),
        "is_impossible": Feature("is_impossible", "bool"),
    }
    names = tuple(features)
    channels = {"tokens": names[:2], "p_mask": names[2:3], "label": names[3:]}
    return FeatureSpec(features, {}, channels, {"encoding": {"version_2": version_2}})


def sizes(**changed: Any) -> ElectraQaParameters:
    small: dict[str, Any] = dict(
        encoder_layers=2, encoder_width=WIDTH, attention_heads=2, feed_forward_width=16, token_width=4, positions=20,
        beam=BEAM, hidden_dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    return ElectraQaParameters(**{**small, **changed})


def make(version_2: bool = True, **changed: Any) -> ElectraQa:
    model = ElectraQa(sizes(**changed), specification(version_2), seed=1)
    for variable in model.variables:
        variable.assign(np.random.default_rng(2).normal(size=variable.shape) * 0.5)
    return model


def questions(rows: int = 5) -> tuple[dict[str, np.ndarray], dict[str, tf.Tensor]]:
    """A question of two tokens and a context of six; the last question has no answer."""
    random = np.random.default_rng(0)
    tokens = random.integers(5, 41, (rows, LENGTH))
    tokens[:, 0], tokens[:, 3], tokens[:, 10], tokens[:, 11] = 2, 3, 3, 0
    places = np.arange(LENGTH)
    blocked = np.tile((places < 4) | (places > 9), (rows, 1))
    blocked[:, 0] = False
    segments = np.tile((places > 3) & (places < 11), (rows, 1))
    features = {"input_ids": tokens, "segment_ids": segments, "p_mask": blocked}
    starts = np.array([4, 5, 6, 9, 0][:rows])
    targets = {
        "start_position": tf.constant(starts),
        "end_position": tf.constant(np.array([4, 7, 9, 9, 0][:rows])),
        "is_impossible": tf.constant((starts == 0).astype("f")),
    }
    return {name: values.astype(np.int32) for name, values in features.items()}, targets


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer.kernel.numpy() + layer.bias.numpy()


def ends_by_hand(head: AnswerHead, states: np.ndarray, start: int, blocked: np.ndarray) -> np.ndarray:
    """Logits of the ends of one text, given its start."""
    hidden = np.tanh(dense(head.end_token, states) + states[start] @ head.end_start.numpy())
    centred = hidden - hidden.mean(-1, keepdims=True)
    normal = centred / hidden.std(-1, keepdims=True) * head.end_norm.gamma.numpy() + head.end_norm.beta.numpy()
    return np.where(blocked, NEVER, dense(head.end, normal)[:, 0])


@pytest.mark.parametrize("version_2", [False, True])
def test_the_loss_is_that_of_start_and_end_and_of_having_no_answer(version_2: bool) -> None:
    model = make(version_2)
    features, targets = questions()
    _, terms = model.loss_terms(features, targets, tf.ones([5], tf.bool))
    tokens, segments = features["input_ids"], features["segment_ids"]
    states = model.encoder(model.embed(tf.constant(tokens), tf.constant(segments)), tf.constant(tokens > 0)).numpy()
    head, losses = model.head, []
    for row in range(5):
        blocked, start, end = (
            features["p_mask"][row] > 0,
            *(int(targets[f"{at}_position"][row]) for at in ("start", "end")),
        )
        starts = np.where(blocked, NEVER, dense(head.start, states[row])[:, 0])
        ends = ends_by_hand(head, states[row], start, blocked)
        loss = -0.5 * log_softmax(starts)[start] - 0.5 * log_softmax(ends)[end]
        if version_2:
            expected = np.exp(log_softmax(starts)) @ states[row]
            logit = dense(head.impossible_output, np.tanh(dense(head.impossible, np.append(states[row, 0], expected))))
            loss += 0.5 * np.logaddexp(0, -logit[0] if row == 4 else logit[0])
        losses.append(loss)
    np.testing.assert_allclose(loss_of(terms.values()), np.mean(losses), rtol=1e-4)
    assert ("impossible" in terms) == version_2


def test_spans_are_the_likeliest_starts_and_their_likeliest_ends() -> None:
    model, (features, _) = make(), questions()
    outputs = {name: values.numpy() for name, values in model.outputs(features).items()}
    tokens, segments = features["input_ids"], features["segment_ids"]
    states = model.encoder(model.embed(tf.constant(tokens), tf.constant(segments)), tf.constant(tokens > 0)).numpy()
    for row in range(5):
        blocked = features["p_mask"][row] > 0
        starts = log_softmax(np.where(blocked, NEVER, dense(model.head.start, states[row])[:, 0]))
        expected: dict[tuple[int, int], float] = {}
        for start in np.argsort(-starts)[:BEAM]:
            ends = log_softmax(ends_by_hand(model.head, states[row], start, blocked))
            expected |= {(start, end): starts[start] + ends[end] for end in np.argsort(-ends)[:BEAM]}
        found = dict(
            zip(
                zip(outputs[SPAN_STARTS][row], outputs[SPAN_ENDS][row], strict=True),
                outputs[SPAN_SCORES][row],
                strict=True,
            )
        )
        assert found.keys() == expected.keys()
        for span, score in expected.items():
            assert found[span] == pytest.approx(score, rel=1e-3, abs=1e-4)


def test_blocked_spans_have_finite_scores_where_a_text_has_too_few_positions() -> None:
    features, _ = questions()
    features["p_mask"][:, 1:] = 1  # [CLS] alone is left
    outputs = make().outputs(features)
    scores = outputs[SPAN_SCORES].numpy()
    assert outputs[SPAN_STARTS].shape == (5, BEAM**2)
    assert np.isfinite(scores).all() and scores.min() >= np.float32(NEVER)
    best = scores.argmax(1)
    assert (scores[:, best] > -1).any() and (outputs[SPAN_STARTS].numpy()[np.arange(5), best] == 0).all()


def test_data_whose_questions_all_have_an_answer_need_no_class_for_it() -> None:
    model, (features, _) = make(version_2=False), questions()
    assert not [v for v in model.variables if "impossible" in v.name]
    np.testing.assert_array_equal(model.outputs(features)[IMPOSSIBLE], np.full(5, -1e4, "f"))


def test_half_precision_returns_float32_and_is_close() -> None:
    features, targets = questions()
    losses = []
    for amp in (False, True):
        model = ElectraQa(sizes(), specification(), seed=1, amp=amp)
        outputs, terms = model.loss_terms(features, targets, tf.ones([5], tf.bool))
        assert outputs["start_logits"].dtype == tf.float32
        losses.append(float(loss_of(terms.values())))
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("embeddings/words", 0),
        ("encoder/projection/kernel", 0),
        ("encoder/layer_0/attention/key/kernel", 1),
        ("encoder/layer_11/feed_forward/output/bias", 12),
        ("answer/start/kernel", 14),
    ],
)
def test_the_learning_rate_falls_from_layer_to_layer(name: str, depth: int) -> None:
    assert depth_of(name, layers=12) == depth


def test_a_step_moves_each_layer_by_its_share_of_the_rate() -> None:
    given = {"layer_decay": "0.5", "warmup_share": "0", "weight_decay": "0", "encoder_layers": "2", "epochs": "1"}
    parameters: Any = build(worker_parameters("electra_qa"), given)
    model = make()
    (group,) = registry.model("electra_qa").optimizers(parameters, model, 1000)
    before = {name_of(v): v.numpy() for v in model.trainable_variables}
    group.optimizer.build(group.variables)
    group.optimizer.apply([(tf.ones_like(v), v) for v in group.variables])
    moved = {name_of(v): float(tf.reduce_mean(before[name_of(v)] - v)) for v in model.trainable_variables}
    rate = parameters.learning_rate
    for name, depth in (
        ("answer/start/kernel", 4),
        ("encoder/layer_1/attention/key/kernel", 2),
        ("embeddings/words", 0),
    ):
        assert moved[name] == pytest.approx(rate * 0.5 ** (4 - depth), rel=1e-3)


def test_data_without_questions_are_refused_in_one_line() -> None:
    spec = specification()
    without = replace(spec, channels={"tokens": spec.channels["tokens"], "p_mask": spec.channels["p_mask"]})
    with pytest.raises(KfrecError, match="channel label lacks end_position, is_impossible, start_position; prepare"):
        ElectraQa(sizes(), without, seed=1)
    with pytest.raises(KfrecError, match="has no p_mask"):
        ElectraQa(sizes(), replace(spec, channels={"tokens": spec.channels["tokens"]}), seed=1)
