"""Quality on tables: ``python -m benchmarks.quality [--data FOLDER] [--seeds 1,2,3] [CASE ...]``.

A case is a real data set with its schema from docs/examples, or a generated table. The models of kfrec and others,
gradient-boosted trees (scikit-learn) or the same models in plain Keras, learn from the same training samples.
Validation samples choose each model's settings among those listed here, with the first seed; a model's defaults are
always among them. Then the test samples are scored, once for each seed, with the chosen settings and with the defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables import write_choices, write_steps, write_uses
from benchmarks.trained import run_step, score, train
from components import registry
from components.contract import PROBABILITY
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.feature_spec.spec import TEST, TRAIN, VALIDATION
from components.metrics import Interval, delong_interval
from components.training_log import TRAINING as TRAINING_RESULTS

Settings = Mapping[str, Any]
EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
TREES, KERAS = "trees", "keras_"
# Maximum number of categories of scikit-learn's trees; larger vocabularies are used as numbers, by frequency.
_MOST_CATEGORIES = 254
# Share of the training samples that chooses the settings of the trees where the data have no validation samples.
_VALIDATION_SHARE = 0.1
# Suffix of binned numbers, which trees do not need.
_BINS = "_bin"
# Rows of the generated tables.
_STEPS_ROWS, _CHOICES_ROWS, _USES_ROWS = 40_000, 200_000, 288_000


@dataclass(frozen=True)
class Case:
    """A data set.

    Attributes:
        folder: of its raw files, below the data folder; empty for a generated table.
        schema: file name in docs/examples; empty for a generated table.
        choices: model to settings among which validation chooses, each the parameters that are not the defaults.
        others: the same of the models that are not kfrec's.
        generate: writes a table and its schema into a folder, and returns the best possible AUC.
        targets: model to metric to the minimum of its mean.
    """

    folder: str
    schema: str
    choices: Mapping[str, Sequence[Settings]]
    others: Mapping[str, Sequence[Settings]] = field(default_factory=dict)
    generate: Callable[[Path], float] | None = None
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def command(self, model: str, settings: Settings, data: str = "DATA") -> str:
        """The command that runs the whole workflow with this model."""
        values = {"table_schema": f"docs/examples/{self.schema}"} if self.schema else {}
        assignments = " ".join(f"--set {name}={value}" for name, value in {**values, **settings}.items())
        source = f"{data}/{self.folder or 'FOLDER'}"
        return f"kfrec run --model {model} --dataset tabular --task click --source {source} {assignments}".rstrip()


DEFAULTS: Settings = {}
CHOICES: dict[str, Sequence[Settings]] = {
    "wide_and_deep": (
        DEFAULTS,
        dict(deep_dropout=0.3, embedding_l2=0.03),
        dict(deep_hidden_units="512,256", embedding_l2=0.03),
        dict(deep_learning_rate=0.0003),
    ),
    "dlrm": (DEFAULTS, dict(top_dropout=0.3), dict(learning_rate=0.0003)),
    "dcn_v2": (DEFAULTS, dict(deep_dropout=0.3), dict(embedding_l2=0.03), dict(learning_rate=0.0003)),
    "logistic_regression": (DEFAULTS, dict(lr=0.0005)),
}
BOOSTED: Sequence[Settings] = tuple(
    dict(max_iter=500, early_stopping=True, learning_rate=rate) for rate in (0.03, 0.06, 0.1)
)
PENALTIES: Sequence[Settings] = tuple(dict(l2=l2) for l2 in (1e-6, 1e-5, 1e-4))
# Keras' models read ids alone, those of binned numbers included.
KERAS_CHOICES = {f"{KERAS}{name}": PENALTIES for name in ("wide_and_deep", "dlrm", "dcn_v2")}
CASES = {
    "adult": Case("adult", "adult.yaml", CHOICES, {TREES: BOOSTED, **KERAS_CHOICES}),
    "flights": Case("nycflights13", "flights.yaml", CHOICES, {TREES: BOOSTED, **KERAS_CHOICES}),
    "steps": Case("", "", CHOICES, {TREES: BOOSTED, **KERAS_CHOICES}, lambda folder: write_steps(folder, _STEPS_ROWS)),
    "choices": Case(
        "",
        "",
        {name: CHOICES[name] for name in ("wide_and_deep", "dlrm", "dcn_v2")},
        KERAS_CHOICES,
        lambda folder: write_choices(folder, _CHOICES_ROWS),
    ),
    "uses": Case(
        "",
        "",
        CHOICES,
        KERAS_CHOICES,
        lambda folder: write_uses(folder, _USES_ROWS),
    ),
}
METRICS = ("auc", "logloss", "accuracy")


def main() -> int:
    options = _parser().parse_args()
    names = options.cases or list(CASES)
    if not options.data and any(CASES[name].folder for name in names):
        print("error: name the folder of the data with --data, or set KFREC_DATA", file=sys.stderr)
        return 2
    failed = False
    for name in names:
        case, best = CASES[name], ""
        with tempfile.TemporaryDirectory(prefix="kfrec-quality-") as folder:
            source = Path(options.data) / case.folder
            if case.generate:
                source = Path(folder) / "source"
                source.mkdir()
                best = f", best possible AUC {case.generate(source):.4f}"
            measured = measure(case, source, Path(folder), options.seeds, options.models, options.defaults)
        results = {row.name: row.test for row in measured}
        print(f"\n{name}, {len(options.seeds)} seeds: mean (least to most){best}\n\n{table(results)}\n")
        for row in measured:
            print(f"    {row.name}: validation AUC {row.validation:.4f}")
            if row.model not in case.others:
                print(f"    {case.command(row.model, row.settings)}")
        for missed in missed_targets(case, results):
            print(f"error: {name}: {missed}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


@dataclass(frozen=True)
class Row:
    """The results of one model with one setting.

    Attributes:
        name: of the row.
        model: of the workflow, or another.
        settings: that are not the defaults.
        validation: AUC of the validation samples, with the first seed.
        test: metrics of the test samples, one entry per seed.
    """

    name: str
    model: str
    settings: Settings
    validation: float
    test: list[dict[str, float]]


def measure(
    case: Case, source: Path, folder: Path, seeds: Sequence[int], models: Sequence[str] = (), defaults: bool = False
) -> list[Row]:
    """The results of each model, with its defaults and with the settings that validation chooses.

    Args:
        case: what to train.
        source: its raw files.
        folder: for artifacts.
        seeds: of the trainings.
        models: names; empty is all.
        defaults: whether kfrec's models have no other settings.
    """
    raw, parquet, records = (folder / name for name in ("raw", "parquet", "tfrecord"))
    run_step("download", "--dataset=tabular", f"--source={source}", f"--raw={raw}")
    schema = [f"--schema={EXAMPLES / case.schema}"] if case.schema else []
    run_step("preprocess", "--dataset=tabular", *schema, f"--raw={raw}", f"--parquet={parquet}")
    run_step("tfrecord", f"--parquet={parquet}", f"--tfrecord={records}")
    rows: list[Row] = []
    choices_of = {**case.choices, **case.others}
    for model in models or choices_of:
        foreign = model in case.others
        choices = choices_of[model] if foreign or not defaults else (DEFAULTS,)
        fits = [_fitted(model, settings, parquet, records, folder, seeds[0]) for settings in choices]
        best = max(range(len(fits)), key=lambda number: fits[number][0])
        for number in dict.fromkeys((best,) if foreign else (0, best)):
            name = model if foreign else f"{model}, {_name(number, best)}"
            row = Row(name, model, choices[number], fits[number][0], [])
            for seed in seeds:
                first = seed == seeds[0]
                _, scored = fits[number] if first else _fitted(model, row.settings, parquet, records, folder, seed)
                labels, probabilities = scored()
                row.test.append(measured(labels, probabilities))
                told = _described(row.test[-1], delong_interval(labels > 0.5, probabilities, np.arange(len(labels))))
                print(f"{name}, seed {seed}: {told}", file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def _name(number: int, best: int) -> str:
    if number:
        return "tuned on validation"
    return "defaults" if best else "defaults, also the best on validation"


# Labels and probabilities of the test samples, scored when called.
Scored = Callable[[], tuple[np.ndarray, np.ndarray]]


def _fitted(
    model: str, settings: Settings, parquet: Path, records: Path, folder: Path, seed: int
) -> tuple[float, Scored]:
    """Trains; returns the AUC of the validation samples, and the scores of the test samples, not yet read."""
    if model == TREES:
        result = trees(parquet, seed, settings)
    elif model.startswith(KERAS):
        result = keras(model.removeprefix(KERAS), parquet, seed, settings)
    else:
        values = {**registry.model(model).dataset_defaults.get("tabular", {}), "task": "click", **settings}
        folder_of_run = folder / "-".join([model, str(seed), *(f"{name}={value}" for name, value in settings.items())])
        result = _trained(model, values, records, folder_of_run, seed)
    print(f"{model} {dict(settings)}, seed {seed}: validation AUC {result[0]:.4f}", file=sys.stderr, flush=True)
    return result


def _trained(model: str, values: Settings, records: Path, folder: Path, seed: int) -> tuple[float, Scored]:
    plain = {name: ",".join(map(str, value)) if isinstance(value, tuple) else value for name, value in values.items()}
    train(model, plain, records, folder, seed)
    validation = json.loads((folder / TRAINING_RESULTS).read_text())["validation_auc"]

    def scored() -> tuple[np.ndarray, np.ndarray]:
        scores = score(model, records, folder)
        return scores.labels, scores.outputs[PROBABILITY]

    return validation, scored


def trees(parquet: Path, seed: int, settings: Settings) -> tuple[float, Scored]:
    """Trains gradient-boosted trees on numbers and ids, without bins.

    Args:
        parquet: folder of the samples.
        seed: of random choices, such as the samples held out for early stopping, and for validation if the data have
            no such split.
        settings: of scikit-learn's HistGradientBoostingClassifier.

    Returns:
        The AUC of the validation samples, and the scores of the test samples.
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
    train, (judging, judged) = _divided(parquet, spec, names, seed)
    boosted.fit(*train)

    def scored() -> tuple[np.ndarray, np.ndarray]:
        matrix, right = _samples(parquet, spec, TEST, names)
        return right, boosted.predict_proba(matrix)[:, 1]

    return measured(judged, boosted.predict_proba(judging)[:, 1])["auc"], scored


def keras(model: str, parquet: Path, seed: int, settings: Settings) -> tuple[float, Scored]:
    """Trains a model of ids in Keras.

    Args:
        model: wide_and_deep, dlrm or dcn_v2.
        parquet: folder of the samples.
        seed: as of ``trees``.
        settings: ``l2``.

    Returns:
        The AUC of the validation samples, and the scores of the test samples.
    """
    from benchmarks.reference.keras_tables import fit

    spec = load_feature_spec(parquet)
    features = spec.channel(Channel.CATEGORICAL)
    names, cardinalities = zip(*((feature.name, feature.cardinality or 0) for feature in features), strict=True)
    train, validation = _divided(parquet, spec, names, seed)
    trained = fit(model, cardinalities, settings["l2"], seed, train, validation)

    def probabilities(ids: np.ndarray) -> np.ndarray:
        logits = trained.predict(ids, 4096, verbose=0)[:, 0].astype(np.float64)
        return 1 / (1 + np.exp(-logits))

    def scored() -> tuple[np.ndarray, np.ndarray]:
        inputs, right = _samples(parquet, spec, TEST, names)
        return right, probabilities(inputs)

    return measured(validation[1], probabilities(validation[0]))["auc"], scored


# A matrix of inputs and their labels.
Samples = tuple[np.ndarray, np.ndarray]


def _divided(parquet: Path, spec: FeatureSpec, names: Sequence[str], seed: int) -> tuple[Samples, Samples]:
    """The training and validation samples; data without the latter are divided at random."""
    from sklearn.model_selection import train_test_split

    train = _samples(parquet, spec, TRAIN, names)
    if (parquet / VALIDATION).is_dir():
        return train, _samples(parquet, spec, VALIDATION, names)
    inputs, judging, labels, judged = train_test_split(*train, test_size=_VALIDATION_SHARE, random_state=seed)
    return (inputs, labels), (judging, judged)


def _samples(parquet: Path, spec: FeatureSpec, split: str, names: Sequence[str]) -> Samples:
    files = sorted((parquet / split).glob("*.parquet"))
    rows = pa.concat_tables(pq.read_table(file) for file in files)
    return np.stack([rows[name].to_numpy() for name in names], 1), rows[spec.targets[0].name].to_numpy()


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
    for model, scores in results.items():
        cells = []
        for metric in METRICS:
            values = [each[metric] for each in scores]
            cells.append(f"{np.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def missed_targets(case: Case, results: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Messages for targets that the mean over the seeds misses."""
    missed = []
    for model, targets in case.targets.items():
        for metric, target in targets.items():
            mean = float(np.mean([scores[metric] for scores in results.get(model, [])] or [target]))
            if mean < target:
                missed.append(f"{model}: {metric} {mean:.4f} is below the target {target}")
    return missed


def _described(scores: Mapping[str, float], auc: Interval) -> str:
    """Metrics of the test samples; the interval of the AUC is over these, and knows nothing of chance in trainings."""
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items()) + f"; {auc.low:.4f} to {auc.high:.4f}"


def _seeds(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--data", default=os.environ.get("KFREC_DATA", ""), metavar="FOLDER", help="default KFREC_DATA")
    parser.add_argument("--seeds", type=_seeds, default=[1, 2, 3], metavar="N,N,...", help="default 1,2,3")
    parser.add_argument("--defaults", action="store_true", help="try no other settings of kfrec's models")
    parser.add_argument("--models", nargs="*", default=(), metavar="NAME", help="of the case (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
