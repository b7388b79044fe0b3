"""Question answering: the part of a text that answers a question, or that none does, evaluated by F1 and EM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from components.errors import KfrecError
from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, mean_interval
from components.tasks.definition import Kept, Measured, Streaming, TaskDefinition
from components.tasks.question_answering.parameters import EXACT_MATCH, F1, AnswerDecision, AnswerEvaluation
from components.tasks.scores import Scores
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.settings import AnswerSettings
from components.text.tables import WINDOW

if TYPE_CHECKING:
    import tensorflow as tf

# Share of the answers above which the limit of their length matters.
_MANY_TOO_LONG = 0.01


def _streaming(training: bool, parameters: AnswerSettings) -> Streaming:
    from components.tasks.question_answering.streaming import AnswerMetrics

    return AnswerMetrics(training, parameters)


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: outputs[name] for name in (SPAN_STARTS, SPAN_ENDS, SPAN_SCORES, IMPOSSIBLE)}


def _require(scores: Scores, source: object) -> None:
    for name in (SPAN_STARTS, SPAN_ENDS, SPAN_SCORES, IMPOSSIBLE):
        if name not in scores.outputs:
            raise KfrecError(
                f"{source}: its model has the outputs {', '.join(scores.outputs)}, and not {name}, which this task "
                "evaluates; choose the model's own task"
            )


def _measure(scores: Scores, parameters: AnswerEvaluation) -> Measured:
    from components.tasks.question_answering.measure import measure

    return measure(scores, parameters)


def _f1(scores: Scores, parameters: AnswerEvaluation) -> np.ndarray:
    from components.tasks.question_answering.measure import judged_of

    return judged_of(scores, parameters).matches[:, 1]


def _difference(
    ours: Scores, theirs: Scores, parameters: AnswerEvaluation, samples: int, confidence: float, seed: int
) -> Interval:
    """Paired bootstrap over questions."""
    gains = _f1(ours, parameters) - _f1(theirs, parameters)
    return mean_interval(gains, samples=samples, confidence=confidence, seed=seed)


def _below_no_answers(metrics: Mapping[str, Any]) -> Sequence[str]:
    empty = metrics["test_f1_of_no_answers"]
    if not empty or metrics["test_f1_low"] > empty:
        return ()
    return (
        f"its F1 of {metrics['test_f1']:.4f} is not above that of leaving all questions unanswered ({empty:.4f}) by "
        "more than chance",
    )


def _remarks(metrics: Mapping[str, Any]) -> Sequence[str]:
    too_long = metrics.get("test_answers_too_long") or 0.0
    if too_long <= _MANY_TOO_LONG:
        return _below_no_answers(metrics)
    return (
        *_below_no_answers(metrics),
        f"{too_long:.0%} of the accepted answers have more than max_answer_length={metrics['test_max_answer_length']} "
        "tokens, so that no answer can equal them; raise it",
    )


TASK = TaskDefinition(
    name="question_answering",
    summary="The part of a text that answers a question, or that none does: F1, exact match.",
    metrics=(F1, EXACT_MATCH),
    training=AnswerSettings,
    evaluation=AnswerEvaluation,
    decision=AnswerDecision,
    defaults={"registered_model": "kfrec-question-answering", "promotion_margin": 0.005},
    kept=tuple(Kept(name, Channel.GROUP, index, needed_for="F1") for index, name in enumerate(WINDOW)),
    serve=_serve,
    streaming=_streaming,
    require=_require,
    measure=_measure,
    story=Lazy("components.tasks.question_answering.sections:story"),
    value=lambda scores, parameters: float(_f1(scores, parameters).mean()),
    difference=_difference,
    floor=lambda parameters: parameters.f1_floor,
    remarks=_remarks,
    vetoes=lambda metrics, parameters: _below_no_answers(metrics) if parameters.require_answers else (),
)
