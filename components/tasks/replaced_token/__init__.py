"""Replaced tokens: how well a model fills masked tokens in, and tells replaced tokens from original ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract import Metric
from components.errors import KfrecError
from components.lazy import Lazy
from components.metrics import CONFIDENCE, Interval
from components.tasks.control_metrics import below_baseline
from components.tasks.definition import Measured, Streaming, TaskDefinition
from components.tasks.replaced_token.parameters import AUC, ReplacedTokenDecision, ReplacedTokenEvaluation
from components.tasks.scores import Scores
from components.text.outputs import CORRUPTED, MASKED, MASKED_CORRECT, MASKED_LOSS, REPLACED, REPLACED_LOGIT

if TYPE_CHECKING:
    import tensorflow as tf

_OUTPUTS = (REPLACED_LOGIT, REPLACED, CORRUPTED, MASKED, MASKED_CORRECT, MASKED_LOSS)


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    missing = [name for name in _OUTPUTS if name not in outputs]
    if missing:
        raise KfrecError(
            f"the task reads the output {missing[0]}, and the model returns {', '.join(outputs)}; choose another task"
        )
    return {name: outputs[name] for name in _OUTPUTS}


def _streaming(training: bool, parameters: object) -> Streaming:
    from components.tasks.replaced_token.streaming import ReplacedTokenMetrics

    return ReplacedTokenMetrics()


def _require(scores: Scores, source: object) -> None:
    replaced = scores.outputs[REPLACED]
    for value, what in ((0, "left as they are"), (1, "replaced")):
        if not (replaced == value).any():
            raise KfrecError(
                f"{source}: no tokens of the {scores.rows} test texts were {what}, so nothing can be told apart; give "
                "a test split with more text"
            )


def _measure(scores: Scores, parameters: ReplacedTokenEvaluation) -> Measured:
    from components.tasks.replaced_token.measure import measure

    return measure(scores)


def _value(scores: Scores, parameters: ReplacedTokenEvaluation) -> float:
    from components.tasks.replaced_token.measure import loss_sums, losses_of

    return float(losses_of(loss_sums(scores).sum(0)))


def _difference(
    ours: Scores, theirs: Scores, parameters: ReplacedTokenEvaluation, samples: int, confidence: float, seed: int
) -> Interval:
    """Paired bootstrap over texts."""
    from components.tasks.replaced_token.measure import loss_interval, loss_sums

    return loss_interval([loss_sums(ours), loss_sums(theirs)], samples=samples, confidence=confidence, seed=seed)


def _not_above_chance(metrics: Mapping[str, Any]) -> list[str]:
    """One sentence if the discriminator does not rank replaced tokens above the others by more than chance."""
    low = metrics["test_auc_low"]
    if low > 0.5:
        return []
    return [
        f"the model does not tell replaced tokens from original ones: test AUC {metrics['test_auc']:.4f} "
        f"({100 * CONFIDENCE:g} % interval from {low:.4f}), where guessing gives 0.5"
    ]


def _remarks(metrics: Mapping[str, Any]) -> Sequence[str]:
    return _not_above_chance(metrics) or below_baseline(metrics, AUC)


def _vetoes(metrics: Mapping[str, Any], parameters: ReplacedTokenDecision) -> Sequence[str]:
    return _remarks(metrics) if parameters.require_baseline else _not_above_chance(metrics)


TASK = TaskDefinition(
    name="replaced_token",
    summary="Which tokens of a text were replaced: loss of generator and discriminator, AUC, masked-token accuracy.",
    metrics=(
        Metric("loss", "loss", higher_is_better=False, is_loss=True),
        AUC,
        Metric("masked_accuracy", "masked-token accuracy"),
    ),
    evaluation=ReplacedTokenEvaluation,
    decision=ReplacedTokenDecision,
    defaults={"registered_model": "kfrec-electra"},
    kept=(),
    serve=_serve,
    streaming=_streaming,
    require=_require,
    measure=_measure,
    story=Lazy("components.tasks.replaced_token.sections:story"),
    value=_value,
    difference=_difference,
    floor=lambda parameters: parameters.loss_ceiling,
    remarks=_remarks,
    vetoes=_vetoes,
    controls=Lazy("components.tasks.replaced_token.baselines:controls"),
)
