"""Quality on real tables: ``python -m benchmarks.quality [--data FOLDER] [--seeds 1,2,3] [CASE ...]``.

Every case is a real data set with its schema from docs/examples. The models of kfrec and gradient-boosted trees
(scikit-learn) learn from the same training samples and are scored on the same test samples, once for each seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.trained import run_step, trained
from components.feature_spec import Channel, FeatureSpec, load_feature_spec

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
TREES = "trees"
# Maximum number of categories of scikit-learn's trees; larger vocabularies are used as numbers, by frequency.
_MOST_CATEGORIES = 254
# Suffix of binned numbers, which trees do not need.
_BINS = "_bin"


@dataclass(frozen=True)
class Case:
    """A data set.

    Attributes:
        folder: of its raw files, below the data folder.
        schema: file name in docs/examples.
        models: model to its non-default parameters.
        trees: settings of the gradient-boosted trees.
        targets: model to metric to the minimum of its mean.
    """

    folder: str
    schema: str
    models: Mapping[str, Mapping[str, Any]]
    trees: Mapping[str, Any]
    targets: Mapping[str, Mapping[str, float]]

    def command(self, model: str, data: str = "DATA") -> str:
        """The command that runs the whole workflow with this model."""
        values = {"table_schema": f"docs/examples/{self.schema}", **self.models[model]}
        settings = " ".join(f"--set {name}={value}" for name, value in values.items())
        return f"kfrec run --model {model} --dataset tabular --task click --source {data}/{self.folder} {settings}"


def wide_and_deep(epochs: int, batch: int) -> dict[str, Any]:
    """Settings of Wide & Deep for a table of 10,000 to 1,000,000 rows."""
    sizes = dict(embedding_dim=8, deep_hidden_units="128,64", deep_dropout=0.2)
    return dict(epochs=epochs, global_batch_size=batch, deep_learning_rate=0.008, deep_warmup_epochs=1, **sizes)


def dlrm(epochs: int, batch: int, rate: float, decay_steps: int) -> dict[str, Any]:
    """Settings of DLRM for such a table."""
    sizes = dict(embedding_dim=8, bottom_mlp_dims="32,8", top_mlp_dims="64,32,1", optimizer="adam")
    schedule = dict(learning_rate=rate, warmup_steps=20, decay_start_step=100, decay_steps=decay_steps)
    return dict(epochs=epochs, global_batch_size=batch, **sizes, **schedule)


CASES = {
    "adult": Case(
        "adult",
        "adult.yaml",
        {
            "wide_and_deep": wide_and_deep(8, 512),
            "dlrm": dlrm(5, 512, 0.005, 220),
            "logistic_regression": dict(epochs=15, global_batch_size=512, lr=0.02),
        },
        {"max_iter": 300, "early_stopping": True},
        {"wide_and_deep": {"auc": 0.918, "accuracy": 0.863}},
    ),
    "flights": Case(
        "nycflights13",
        "flights.yaml",
        {
            "wide_and_deep": wide_and_deep(5, 2048),
            "dlrm": dlrm(4, 2048, 0.003, 440),
            "logistic_regression": dict(epochs=4, global_batch_size=2048, lr=0.01),
        },
        # Seasonal shift: longer training improves only months like those seen in training.
        {"max_iter": 60, "learning_rate": 0.05},
        {"dlrm": {"auc": 0.885}},
    ),
}
METRICS = ("auc", "logloss", "accuracy")


def main() -> int:
    options = _parser().parse_args()
    if not options.data:
        print("error: name the folder of the data with --data, or set KFREC_DATA", file=sys.stderr)
        return 2
    failed = False
    for name in options.cases or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory(prefix="kfrec-quality-") as folder:
            results = measure(case, Path(options.data) / case.folder, Path(folder), options.seeds, options.models)
        print(f"\n{name}, {len(options.seeds)} seeds: mean (least to most)\n\n{table(results)}\n")
        for model in case.models:
            print(f"    {case.command(model)}")
        for missed in missed_targets(case, results):
            print(f"error: {name}: {missed}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


def measure(
    case: Case, source: Path, folder: Path, seeds: Sequence[int], models: Sequence[str] = ()
) -> dict[str, list[dict[str, float]]]:
    """The metrics of each model, one entry per seed.

    Args:
        case: what to train.
        source: its raw files.
        folder: for artifacts.
        seeds: of the trainings.
        models: names; empty is all.
    """
    raw, parquet, records = (folder / name for name in ("raw", "parquet", "tfrecord"))
    run_step("download", "--dataset=tabular", f"--source={source}", f"--raw={raw}")
    schema = EXAMPLES / case.schema
    run_step("preprocess", "--dataset=tabular", f"--schema={schema}", f"--raw={raw}", f"--parquet={parquet}")
    run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
    results: dict[str, list[dict[str, float]]] = {}
    for model in models or (*case.models, TREES):
        for seed in seeds:
            if model == TREES:
                found = measured(*trees(parquet, seed, case.trees))
            else:
                scores = trained(model, case.models[model], records, folder / f"{model}-{seed}", seed)
                found = measured(scores.labels, scores.values)
            results.setdefault(model, []).append(found)
            print(f"{model}, seed {seed}: {_told(found)}", file=sys.stderr, flush=True)
    return results


def trees(parquet: Path, seed: int, settings: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Trains gradient-boosted trees on numbers and ids, without bins; returns test labels and probabilities.

    Args:
        parquet: folder of the samples.
        seed: of random choices, such as the tenth of the training samples held out for early stopping.
        settings: of scikit-learn's HistGradientBoostingClassifier.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    spec = load_feature_spec(parquet)
    features = [
        spec.features[name]
        for channel in (Channel.NUMERICAL, Channel.CATEGORICAL)
        for name in spec.channels.get(channel, ())
        if not name.endswith(_BINS)
    ]
    categorical = [f.cardinality is not None and f.cardinality <= _MOST_CATEGORIES for f in features]
    names = [feature.name for feature in features]
    boosted = HistGradientBoostingClassifier(categorical_features=categorical, random_state=seed, **settings)
    boosted.fit(*_samples(parquet, spec, "train", names))
    inputs, labels = _samples(parquet, spec, "test", names)
    return labels, boosted.predict_proba(inputs)[:, 1]


def _samples(parquet: Path, spec: FeatureSpec, split: str, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    files = sorted((parquet / split).glob("*.parquet"))
    rows = pa.concat_tables(pq.read_table(file) for file in files)
    return np.stack([rows[name].to_numpy() for name in names], 1), rows[spec.channel(Channel.LABEL)[0].name].to_numpy()


def measured(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """The metrics of one training."""
    from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

    return {
        "auc": float(roc_auc_score(labels, probabilities)),
        "logloss": float(log_loss(labels, probabilities.astype(np.float64))),
        "accuracy": float(accuracy_score(labels, probabilities > 0.5)),
    }


def table(results: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """A Markdown table with one row per model: mean and range of each metric over the seeds."""
    lines = ["| model | AUC | log loss | accuracy |", "|---|---|---|---|"]
    for model, found in results.items():
        cells = []
        for metric in METRICS:
            values = [each[metric] for each in found]
            cells.append(f"{np.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def missed_targets(case: Case, results: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Messages for targets that the mean over the seeds misses."""
    missed = []
    for model, targets in case.targets.items():
        for metric, target in targets.items():
            mean = float(np.mean([found[metric] for found in results.get(model, [])] or [target]))
            if mean < target:
                missed.append(f"{model}: {metric} {mean:.4f} is below the target {target}")
    return missed


def _told(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in found.items())


def _seeds(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--data", default=os.environ.get("KFREC_DATA", ""), metavar="FOLDER", help="default KFREC_DATA")
    parser.add_argument("--seeds", type=_seeds, default=[1, 2, 3], metavar="N,N,...", help="default 1,2,3")
    parser.add_argument("--models", nargs="*", default=(), metavar="NAME", help=f"models, or {TREES} (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
