"""From impressions to samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from components.artifacts import Artifact
from components.checks.profile import CATEGORY, NUMBER
from components.checks.tables import Profiled
from components.datasets.criteo import DAYS, Sampling
from components.datasets.criteo.columns import CATEGORICAL, LABEL, LINE, NUMERICAL, parse_lines
from components.datasets.criteo.partitions import Partition, Span, write_partitions
from components.datasets.criteo.vocabulary import require_growing
from components.datasets.definition import PreprocessJob
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec, Vocabulary
from components.feature_spec.spec import FILENAME
from components.feature_spec.values import earlier_vocabulary
from components.feature_spec.vocabulary import VOCABULARY, vocabulary_file
from components.workflows.startup import start_fork_server_early
from components.workflows.text_blocks import RawReader

# Missing integers have the logarithm 0, as the smallest ones do.
_COLUMNS = (
    Profiled(LABEL, CATEGORY),
    *(Profiled(name, NUMBER, absent=0.0) for name in NUMERICAL),
    *(Profiled(name, CATEGORY) for name in CATEGORICAL),
)
# Generated impressions that the best possible AUC is averaged over: to 0.001, in a second.
_AVERAGED_OVER = 200_000
# Columns with most values in the public logs first.
_KEY = tuple(dict.fromkeys(("cat_3", "cat_12", "cat_21", "cat_16", *LINE.names)))

# The file of the Kaggle competition, which is of no day.
_ONLY_FILE = "train.txt"


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of both splits; returns counts of samples, impressions read, and lines dropped."""
    parameters, scratch, scheduler = job.parameters, job.scratch, job.scheduler
    files = find_days(job.raw, parameters)
    # Opened before the long work, so that errors show early.
    earlier = earlier_vocabulary(parameters.workflow, scratch / "given", CATEGORICAL) if parameters.workflow else None
    reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
    profiler = job.profiler.table("impressions", _COLUMNS, _KEY)
    grows, until = parameters.vocabulary_slack > 0, -1
    if grows:
        _require_days(files, parameters)
        until = require_growing(earlier, parameters.workflow) if earlier is not None else until
    days: list[list[Partition]] = []
    read, rows = 0, parameters.impressions_per_partition
    for path in files:
        tables = reader.tables([path], parse_lines, "impressions", f"reading {path.name}", profiler)
        days.append(write_partitions(tables, rows, scratch, path.name))
        read += sum(partition.rows for partition in days[-1])
        if read > rows:
            start_fork_server_early(parameters.workers, scheduler)
        if not days[-1]:
            raise KfrecError(f"{path}: no impressions in it; check what download fetched")
    job.profiler.judge()

    from components.datasets.criteo.pipeline import choose_vocabulary, write_split
    from components.datasets.criteo.synthetic import best_auc
    from components.workflows.workers import dask_workers

    splits = {split: [span for span in spans if span.rows] for split, spans in _splits(files, days, parameters).items()}
    by_day = _by_day(files, days, splits["train"])
    if grows:
        by_day, replayed = _divided(by_day, until, files, parameters)
        splits["train"] = [*replayed, *(span for spans in by_day.values() for span in spans)]
    for split, spans in splits.items():
        _require_both_labels(spans, split, files[-1] if split == "test" else files[0])
    lookups = scratch / "lookups"
    lookups.mkdir()
    (job.output / VOCABULARY).mkdir()
    with dask_workers(parameters.workers, scheduler, -(-read // rows)) as workers:
        chosen = choose_vocabulary(workers, by_day, earlier, parameters, lookups, job.output, scratch)
        written = {split: write_split(workers, spans, lookups, job.output / split) for split, spans in splits.items()}

    encoding: dict[str, Any] = {
        "dataset": "criteo",
        "vocabulary": chosen.vocabulary,
        "out_of_vocabulary_rate": chosen.out_of_vocabulary_rate,
        "raw_rows": job.raw.rows.get("impressions", read),
    }
    if grows:
        encoding["unknown_share"] = written["test"].unknown / max(written["test"].values, 1)
    if chosen.turnover is not None:
        encoding |= vars(chosen.turnover) | {"replayed": sum(span.rows for span in replayed)}
    if job.generation is not None:
        # Samples of the test day are distributed as all impressions are.
        encoding["best"] = {"auc": best_auc(job.generation, _AVERAGED_OVER)}
    (job.folder / FILENAME).write_text(specification(chosen.sizes, encoding).to_yaml())
    counts = {split: each.rows for split, each in written.items()}
    return {**counts, "impressions": read, "malformed_lines": reader.malformed_lines}


def find_days(raw: Artifact, parameters: Sampling) -> list[Path]:
    """The files to read: the training days in order, then the test day; or the only file.

    Raises:
        KfrecError: no file, a duplicate day, files of both kinds, a missing test day or earlier day, or a test day of
            train.txt.
    """
    files = DAYS.files(raw)
    single = [path for path in files if path.name.startswith(_ONLY_FILE)]
    if single and len(files) > 1:
        raise KfrecError(
            f"{single[0]}: lies beside {next(p for p in files if p not in single).name}, which is of another "
            "collection; name the files of one of them with the parameter files"
        )
    if single and parameters.test_day >= 0:
        raise KfrecError(f"parameter test_day={parameters.test_day}: {single[0]} is of no day; leave it at -1")
    if len(files) == 1 and parameters.test_day < 0:
        return files
    return _chosen(sorted(files, key=_number), parameters, raw.path)


def _number(path: Path) -> int:
    return int(path.name.removesuffix(".gz").removeprefix("day_"))


def _chosen(days: Sequence[Path], parameters: Sampling, folder: Path) -> list[Path]:
    numbers = [_number(path) for path in days]
    test = numbers[-1] if parameters.test_day < 0 else parameters.test_day
    available = f"the days here are {', '.join(map(str, numbers))}"
    if test not in numbers:
        raise KfrecError(f"parameter test_day={test}: no day_{test} in {folder}; {available}")
    last = numbers.index(test)
    if not last:
        raise KfrecError(f"parameter test_day={test}: no day before it to train on in {folder}; {available}")
    first = max(0, last - parameters.train_days) if parameters.train_days else 0
    return list(days[first : last + 1])


def _require_both_labels(spans: Sequence[Span], split: str, path: Path) -> None:
    """Rejects a split whose labels are all equal, before anything is trained on it."""
    found: set[int] = set()
    for span in spans:
        found.update(pc.unique(span.read((LABEL,))[LABEL]).to_pylist())
        if len(found) > 1:
            return
    rows = sum(span.rows for span in spans)
    raise KfrecError(
        f"{path}: all {rows} {split} impressions have the label {found.pop()}, so no model can learn or be judged by "
        "them; give files with both labels in each split"
    )


def _splits(files: Sequence[Path], days: Sequence[Sequence[Partition]], parameters: Any) -> dict[str, list[Span]]:
    """The impressions of each split; a span may be empty.

    Only part of the last file is the test split: its end, if it is the only file.

    Raises:
        KfrecError: the only file has too few impressions.
    """
    rows = sum(partition.rows for partition in days[-1])
    if len(days) > 1:
        tested = max(1, round(rows * parameters.test_day_share))
        train = [Span(partition, 0, partition.first + partition.rows) for day in days[:-1] for partition in day]
        return {"train": train, "test": [Span(partition, 0, tested) for partition in days[-1]]}
    tested = max(1, round(rows * parameters.test_share))
    if tested == rows:
        raise KfrecError(f"{files[0]}: {rows} impressions leave none to train on; give a larger file, or several days")
    return {
        "train": [Span(partition, 0, rows - tested) for partition in days[0]],
        "test": [Span(partition, rows - tested, rows) for partition in days[0]],
    }


def _require_days(files: Sequence[Path], parameters: Sampling) -> None:
    """Requires files of days, by which a vocabulary that grows counts.

    Raises:
        KfrecError: the file is of no day.
    """
    if files[0].name.startswith(_ONLY_FILE):
        raise KfrecError(
            f"parameter vocabulary_slack={parameters.vocabulary_slack:g}: {files[0]} is of no day, and a vocabulary "
            "grows by days; set it to 0"
        )


def _by_day(files: Sequence[Path], days: Sequence[Sequence[Partition]], spans: Sequence[Span]) -> dict[int, list[Span]]:
    """Spans by the number of their day; 0 for a file of no day."""
    found: dict[int, list[Span]] = {}
    for path, partitions in zip(files, days, strict=True):
        number = 0 if path.name.startswith(_ONLY_FILE) else _number(path)
        if own := [span for span in spans if span.partition in partitions]:
            found[number] = own
    return found


def _divided(
    by_day: Mapping[int, list[Span]], until: int, files: Sequence[Path], parameters: Any
) -> tuple[dict[int, list[Span]], list[Span]]:
    """The days that an earlier vocabulary has not counted, and impressions of the other days that train once more.

    Args:
        until: the last day that it counted.

    Raises:
        KfrecError: it has counted all days.
    """
    new = {day: spans for day, spans in by_day.items() if day > until}
    if not new:
        raise KfrecError(
            f"{files[-1]}: no day between day {until}, the last one that the vocabulary has counted, and this one, "
            "which tests; give the days since then"
        )
    older = [span for day, spans in by_day.items() if day <= until for span in spans]
    rows, held = sum(span.rows for spans in new.values() for span in spans), sum(span.rows for span in older)
    share = min(parameters.replay_share * rows / max(held, 1), 1.0)
    firsts = [(span, max(span.begin, span.partition.first), round(share * span.rows)) for span in older]
    replayed = [Span(span.partition, first, first + count) for span, first, count in firsts if count]
    return new, replayed


MISSING_OR_RARE = 0


def specification(sizes: Mapping[str, int], encoding: Mapping[str, Any]) -> FeatureSpec:
    features = [
        Feature(LABEL, "bool"),
        *(Feature(name, "float32") for name in NUMERICAL),
        # A column without frequent values still has a table: for 0 and an unused id.
        *(Feature(name, "int64", max(sizes[name], 1)) for name in CATEGORICAL),
    ]
    channels = {Channel.LABEL: (LABEL,), Channel.NUMERICAL: NUMERICAL, Channel.CATEGORICAL: CATEGORICAL}
    vocabularies = [Vocabulary(name, vocabulary_file(name), MISSING_OR_RARE, (name,)) for name in CATEGORICAL]
    noted = {"vocabulary": {each.name: each.to_dict() for each in vocabularies}, "encoding": dict(encoding)}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels, noted)
