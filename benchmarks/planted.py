"""Quality on planted data: ``python -m benchmarks.planted [--rows N] [--shuffled] [MODEL ...]``.

The labels of the synthetic data are drawn with probabilities that are known, and so is the best that a model can reach.
With --shuffled there is nothing to learn, and an AUC other than one half tells of a leak.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.trained import options_of, run_step, trained
from components import registry
from components.contract import PROBABILITY
from components.metrics import RankedGroups, roc_auc
from components.steps.catalog import STEPS

AUC, MAP = "AUC", "MAP@12"
# Maximum gap to the best possible metric, and to chance with shuffled labels.
GAP, CHANCE = 0.005, 0.01
_RANKED = 12


@dataclass(frozen=True)
class Planted:
    """A model on the planted data of its data set.

    Attributes:
        size: the generator's size parameter, and rows per unit of it.
        best: maps the parameters of the download and preprocess steps to the best possible metrics.
        training: parameters of the train step.
        generation: other parameters of the generator.
        sampling: parameters of the preprocess step.
    """

    size: tuple[str, float]
    best: Callable[[Any, Any], Mapping[str, float]]
    training: Mapping[str, Any]
    generation: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)


def _best_of_criteo(generation: Any, sampling: Any) -> dict[str, float]:
    from components.datasets.criteo.synthetic import best_auc

    return {AUC: best_auc(generation)}


def _best_of_outbrain(generation: Any, sampling: Any) -> dict[str, float]:
    from components.datasets.outbrain.best_scores import best_scores

    scores = best_scores(generation, sampling)
    return {AUC: scores["auc"], MAP: scores["map_at_12"]}


CASES = {
    "dlrm": Planted(
        ("synthetic_impressions", 1.0),
        _best_of_criteo,
        dict(
            epochs=1,
            global_batch_size=2048,
            embedding_dim=16,
            bottom_mlp_dims="64,32,16",
            top_mlp_dims="128,64,1",
            optimizer="adam",
            learning_rate=0.002,
            warmup_steps=100,
        ),
        sampling={"test_day_share": 1.0},
    ),
    "wide_and_deep": Planted(
        ("synthetic_displays", 5.2),
        _best_of_outbrain,
        dict(
            epochs=3,
            global_batch_size=2048,
            embedding_dim=16,
            deep_hidden_units="64,64",
            deep_learning_rate=0.004,
            linear_learning_rate=0.05,
            deep_warmup_epochs=1,
        ),
    ),
}


@dataclass(frozen=True)
class Result:
    """Result of a model.

    Attributes:
        rows: test samples.
        reached: the model's metrics.
        best: the best possible metrics.
        seconds: of all steps.
    """

    rows: int
    reached: Mapping[str, float]
    best: Mapping[str, float]
    seconds: float

    def missed(self, shuffled: bool) -> list[str]:
        """Messages for the metrics that miss their target."""
        if shuffled:
            off = abs(self.reached[AUC] - 0.5)
            return [f"{AUC} {self.reached[AUC]:.4f} with shuffled labels is not 0.5"] if off > CHANCE else []
        return [
            f"{name} {self.reached[name]:.4f} is more than {GAP} below the best, {best:.4f}"
            for name, best in self.best.items()
            if best - self.reached[name] > GAP
        ]


def measure(model: str, rows: int, shuffled: bool, folder: Path, **training: Any) -> Result:
    """Generates data, trains and scores.

    Args:
        model: of CASES.
        rows: approximate number of samples, of both splits.
        shuffled: whether labels are random.
        folder: for artifacts.
        training: other parameters of the train step.
    """
    case, started = CASES[model], time.monotonic()
    dataset = registry.model(model).dataset
    name, rows_each = case.size
    made = {"dataset": dataset, "synthetic_shuffled_labels": shuffled, name: round(rows / rows_each), **case.generation}
    sampled = {"dataset": dataset, **case.sampling}
    raw, parquet, records = (folder / each for each in ("raw", "parquet", "tfrecord"))
    run_step("download", f"--raw={raw}", *options_of(made))
    run_step("preprocess", f"--raw={raw}", f"--parquet={parquet}", *options_of(sampled))
    size = {f"prebatch_{split}_size": 1024 for split in ("train", "test")}
    run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}", *options_of(size))
    scores = trained(model, {**case.training, **training}, records, folder / "model", seed=1)
    reached = {AUC: roc_auc(scores.labels, scores.outputs[PROBABILITY])}
    if "group" in scores.kept:
        reached[MAP] = RankedGroups(scores.labels, scores.outputs[PROBABILITY], scores.kept["group"]).mean(_RANKED)
    best = case.best(STEPS["download"].of(**made), STEPS["preprocess"].of(**sampled))
    return Result(len(scores.labels), reached, best, time.monotonic() - started)


def table(results: Mapping[str, Result]) -> str:
    """A Markdown table with one row per model and metric."""
    lines = [
        "| model | test samples | metric | reached | best possible | gap | s |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for model, result in results.items():
        for name, best in result.best.items():
            reached = result.reached[name]
            lines.append(
                f"| {model} | {result.rows:,} | {name} | {reached:.4f} | {best:.4f} | {best - reached:.4f} "
                f"| {result.seconds:.0f} |"
            )
    return "\n".join(lines)


def main() -> int:
    options = _parser().parse_args()
    results = {}
    for model in options.models or CASES:
        with tempfile.TemporaryDirectory(prefix="kfrec-planted-") as folder:
            results[model] = measure(model, options.rows, options.shuffled, Path(folder))
    print(table(results))
    missed = [f"{model}: {line}" for model, result in results.items() for line in result.missed(options.shuffled)]
    for line in missed:
        print(f"error: {line}", file=sys.stderr)
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[[], *CASES], help=f"of {', '.join(CASES)}")
    parser.add_argument("--rows", type=int, default=4_000_000, metavar="N", help="of both splits, default %(default)s")
    parser.add_argument("--shuffled", action="store_true", help="labels that say nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
