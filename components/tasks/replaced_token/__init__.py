"""Replaced tokens: how well a model fills masked tokens in, and tells replaced tokens from original ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract import Metric
from components.errors import KfrecError
from components.lazy import Lazy
from components.metrics import CONFIDENCE
from components.parameters import param
from components.tasks.controls import NO_INTERVAL, below_baseline
from components.tasks.definition import Streaming, TaskDefinition
from components.tasks.scores import Scores
from components.text.outputs import CORRUPTED, MASKED, MASKED_CORRECT, MASKED_LOSS, REPLACED, REPLACED_LOGIT

if TYPE_CHECKING:
    import tensorflow as tf

AUC = Metric("auc", "replaced-token AUC")
_OUTPUTS = (REPLACED_LOGIT, REPLACED, CORRUPTED, MASKED, MASKED_CORRECT, MASKED_LOSS)


@dataclass(frozen=True)
class ReplacedTokenEvaluation:
    """Parameters of the evaluate step."""

    baseline_texts: int = param(
        2000,
        "Test texts whose tokens are also scored by the counts of tokens and of pairs of neighbours; 0 leaves that out",
        unit="texts",
        at_least=0,
    )
    baseline_training_texts: int = param(
        100_000, "Training texts whose tokens these baselines count", unit="texts", at_least=0
    )


@dataclass(frozen=True)
class ReplacedTokenDecision:
    """Parameters of the register step."""

    require_baseline: bool = param(
        True,
        "Promote a model only if its replaced-token AUC is above that of the built-in baseline, the better of the "
        "counts of tokens and of pairs of neighbours, by more than chance",
    )
    loss_ceiling: float = param(30.0, "A first model needs a test loss below this to become champion", at_least=0)


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


def _not_above_chance(metrics: Mapping[str, Any]) -> list[str]:
    """One sentence if the discriminator does not rank replaced tokens above the others by more than chance."""
    low = metrics["test_auc_low"]
    if low is not None and low > 0.5:
        return []
    ends = NO_INTERVAL if low is None else f"{100 * CONFIDENCE:g} % interval from {low:.4f}"
    return [
        f"the model does not tell replaced tokens from original ones: test AUC {metrics['test_auc']:.4f} ({ends}), "
        "where guessing gives 0.5"
    ]


def _remarks(metrics: Mapping[str, Any]) -> Sequence[str]:
    return _not_above_chance(metrics) or below_baseline(metrics, AUC)


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
    measure=Lazy("components.tasks.replaced_token.measure:measure"),
    story=Lazy("components.tasks.replaced_token.sections:story"),
    value=Lazy("components.tasks.replaced_token.measure:loss_of"),
    difference=Lazy("components.tasks.replaced_token.measure:loss_difference"),
    floor=lambda parameters: parameters.loss_ceiling,
    remarks=_remarks,
    vetoes=lambda metrics, parameters: _not_above_chance(metrics),
    baseline_vetoes=lambda metrics, parameters: below_baseline(metrics, AUC) if parameters.require_baseline else (),
    controls=Lazy("components.tasks.replaced_token.baselines:controls"),
)
