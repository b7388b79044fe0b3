"""What the score of a click-through-rate model rests on: its controls, and their measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.contract import PROBABILITY
from components.feature_spec import FeatureSpec
from components.metrics import CONFIDENCE, resampled_auc
from components.tasks.binary.measure import RESAMPLES
from components.tasks.click.baselines import BASELINE, history_baselines
from components.tasks.click.parameters import ClickDecision, ClickEvaluation
from components.tasks.click.probes import probes_of
from components.tasks.controls import Controls
from components.tasks.scores import Controlled

USER = "user"


def controls(spec: FeatureSpec, parameters: ClickEvaluation) -> Controls | None:
    """The probes and baselines that the data allow; None if there are none."""
    probes = probes_of(spec)
    baselines = history_baselines(spec) if parameters.baseline_samples else None
    if not parameters.control_samples or not (probes or baselines):
        return None
    return Controls(probes, baselines, PROBABILITY, parameters.control_samples, parameters.baseline_samples)


def measure_controls(controlled: Controlled) -> dict[str, Any]:
    """The AUC of each control, and how far the model is above it on the same samples.

    Intervals are of the bootstrap over users, all on the same draws.

    Returns:
        ``test_controls_rows``, ``test_controls_training_rows`` and ``test_controls_auc``, the model's own AUC on these
        samples; for each control ``test_<name>_auc`` and ``test_auc_above_<name>``, with ``_low`` and ``_high`` each,
        None for a control without scores. Empty if the samples have one class.
    """
    model = controlled.model
    if not 0 < (model.labels > 0).sum() < len(model.labels):
        return {}
    measured = {name: values for name, values in controlled.others.items() if values is not None}
    users = model.kept.get(USER)
    resampled = resampled_auc(
        model.labels, [model.outputs[PROBABILITY], *measured.values()], samples=RESAMPLES, clusters=users
    )
    metrics: dict[str, Any] = {
        "test_controls_rows": len(model.labels),
        "test_controls_training_rows": controlled.training_samples,
    }
    own = resampled.interval(0, confidence=CONFIDENCE)
    metrics |= {"test_controls_auc": own.estimate, "test_controls_auc_low": own.low, "test_controls_auc_high": own.high}
    for name in controlled.others:
        index = list(measured).index(name) + 1 if name in measured else None
        for key, (which, minus) in {f"test_{name}_auc": (index, None), f"test_auc_above_{name}": (0, index)}.items():
            interval = None if index is None else resampled.interval(which or 0, minus, CONFIDENCE)
            for part, value in (("", "estimate"), ("_low", "low"), ("_high", "high")):
                metrics[f"{key}{part}"] = None if interval is None else getattr(interval, value)
    return metrics


def below_baseline(metrics: Mapping[str, Any]) -> str:
    """One sentence if the model is not above the baseline by more than chance; empty if it is, or without baseline."""
    low = metrics.get(f"test_auc_above_{BASELINE}_low")
    if low is None or low > 0:
        return ""
    difference, high = (metrics[f"test_auc_above_{BASELINE}{part}"] for part in ("", "_high"))
    return (
        f"the model does not beat the built-in baseline: test AUC {metrics['test_controls_auc']:.4f} against "
        f"{metrics[f'test_{BASELINE}_auc']:.4f}, a difference of {difference:+.4f} "
        f"({100 * CONFIDENCE:g} % interval {low:+.4f} to {high:+.4f})"
    )


def remarks(metrics: Mapping[str, Any]) -> list[str]:
    """What a user must see beside the AUC."""
    return [remark for remark in (below_baseline(metrics),) if remark]


def vetoes(metrics: Mapping[str, Any], parameters: ClickDecision) -> list[str]:
    """Why the model must not become champion; empty if nothing speaks against it."""
    return remarks(metrics) if parameters.require_baseline else []
