"""Question answering: the part of a text that answers a question, or that none does, evaluated by F1 and EM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from components.contract import Metric
from components.errors import KfrecError
from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, mean_interval
from components.parameters import param
from components.tasks.definition import Kept, TaskDefinition
from components.tasks.scores import Scores
from components.text.answers import AnswerSettings
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.questions import WINDOW

if TYPE_CHECKING:
    import tensorflow as tf


F1 = Metric("f1", "F1", of_groups=True)
EXACT_MATCH = Metric("exact_match", "EM", of_groups=True)


@dataclass(frozen=True)
class AnswerEvaluation(AnswerSettings):
    """Parameters of the evaluate step."""

    n_best: int = param(
        20, "Best spans of a question among which the report looks for the right one", unit="spans", at_least=1
    )


@dataclass(frozen=True)
class AnswerDecision:
    """Parameters of the register step."""

    require_answers: bool = param(
        True, "Promote a model only if its F1 is above that of leaving all questions unanswered by more than chance"
    )
    f1_floor: float = param(
        0.1,
        "A first model needs a test F1 above that of leaving all questions unanswered by more than this to become "
        "champion",
        at_least=0,
        at_most=1,
    )


_f1 = Lazy("components.tasks.question_answering.measure:f1_of")
# Share of the answers above which the limit of their length matters.
_MANY_TOO_LONG = 0.01


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: outputs[name] for name in (SPAN_STARTS, SPAN_ENDS, SPAN_SCORES, IMPOSSIBLE)}


def _require(scores: Scores, source: object) -> None:
    for name in (SPAN_STARTS, SPAN_ENDS, SPAN_SCORES, IMPOSSIBLE):
        if name not in scores.outputs:
            raise KfrecError(
                f"{source}: its model has the outputs {', '.join(scores.outputs)}, and not {name}, which this task "
                "evaluates; choose the model's own task"
            )


def _difference(
    ours: Scores, theirs: Scores, parameters: AnswerEvaluation, samples: int, confidence: float, seed: int
) -> Interval:
    """Paired bootstrap over questions."""
    gains = _f1(ours, parameters) - _f1(theirs, parameters)
    return mean_interval(gains, samples=samples, confidence=confidence, seed=seed)


def _below_no_answers(metrics: Mapping[str, Any]) -> Sequence[str]:
    empty = metrics["test_f1_of_no_answers"]
    low = metrics["test_f1_low"]
    if low is not None and low > empty:
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
    streaming=Lazy("components.tasks.question_answering.streaming:AnswerMetrics"),
    require=_require,
    measure=Lazy("components.tasks.question_answering.measure:measure"),
    story=Lazy("components.tasks.question_answering.sections:story"),
    value=lambda scores, parameters: float(_f1(scores, parameters).mean()),
    difference=_difference,
    floor=lambda parameters: parameters.f1_floor,
    guessing=itemgetter("test_f1_of_no_answers"),
    remarks=_remarks,
    vetoes=lambda metrics, parameters: _below_no_answers(metrics) if parameters.require_answers else (),
)
