"""From tables to samples, in three passes over partitions: read, survey and fit, encode.

NVTabular takes two seconds to import, so modules that need it are imported in functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.definition import PreprocessJob
from components.datasets.tabular.entries import ByTime, Multihot, Numeric
from components.datasets.tabular.fitted import SERVED_SCHEMA, Fitted, fit_number, read_fitted, write_fitted
from components.datasets.tabular.raw_files import FILENAME, find_schema, find_tables, read_schema
from components.datasets.tabular.rows import Rows, read_tables
from components.datasets.tabular.schema import SPLITS, Source, TableSchema
from components.datasets.tabular.splits import find_cuts
from components.datasets.tabular.statistics import Partition, Survey, find_group, merge, survey
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME as SPEC
from components.feature_spec.vocabulary import Vocabulary, vocabulary_file
from components.progress import progress, warn

if TYPE_CHECKING:
    from components.datasets.tabular import PreprocessTable
    from components.workflows.workers import Workers


# Above this, an unscaled number makes a model's first steps overflow or saturate.
_LARGE = 1e6


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of the splits, their specification, the schema and the fitted statistics.

    Returns counts of samples, rows read, unlabelled rows dropped, and malformed rows.
    """
    parameters: PreprocessTable = job.parameters
    place, text = find_schema(job.raw, parameters.schema)
    schema = read_schema(place, text)
    tables = find_tables(job.raw, schema, place)
    given = read_fitted(parameters.workflow, schema.sources, job.scratch / "given") if parameters.workflow else None
    rows = read_tables(tables, schema, place, job)
    job.profiler.judge()
    partitions = _partitions(schema, rows, place)

    from components.workflows.workers import dask_workers

    with dask_workers(parameters.workers, job.scheduler, len(partitions)) as workers:
        found = _survey(workers, partitions, schema, parameters.seed)
        _check(found, schema, partitions, place)
        fitted, encoding = _fitted(workers, partitions, schema, found, given, parameters, job.scratch, place)
        encoding |= write_fitted(fitted, schema.sources, job.folder)
        spec = _encode(workers, partitions, schema, found, fitted, job)
    from components.datasets.tabular.encoding import derived_features

    for copy in (FILENAME, SERVED_SCHEMA):
        (job.folder / copy).write_text(text)
    noted = {"dataset": "tabular", **encoding, "raw_rows": rows.read}
    notes = {"vocabulary": _vocabularies(fitted), "derived": derived_features(fitted, schema), "encoding": noted}
    (job.folder / SPEC).write_text(replace(spec, metadata=notes).to_yaml())
    return {
        **{split: int(count) for split, count in zip(SPLITS, found.rows, strict=True) if split in schema.splits},
        "rows": rows.read,
        "unlabelled_rows": rows.unlabelled,
        "malformed_rows": rows.malformed,
    }


def _vocabularies(fitted: Fitted) -> dict[str, Any]:
    """The section of the specification that lists the vocabularies; unknown values share id 0 with missing ones."""
    return {name: Vocabulary(name, vocabulary_file(name), 0, (name,)).to_dict() for name in fitted.vocabularies}


def _partitions(schema: TableSchema, rows: Rows, place: str) -> list[Partition]:
    """The partitions, with the cuts of a split by time."""
    if not rows.partitions:
        raise KfrecError(f"{place}: label: no row is left after those without a label were dropped; correct the label")
    cuts = None
    if isinstance(schema.split, ByTime):
        assert rows.times is not None
        cuts = find_cuts(schema.split, rows.times, rows.partitions, place)
    counts = [pq.ParquetFile(path).metadata.num_rows for path in rows.partitions]
    firsts = [0, *accumulate(counts)]
    return [Partition(path, first, cuts) for path, first in zip(rows.partitions, firsts, strict=False)]


def _survey(workers: Workers, partitions: Sequence[Partition], schema: TableSchema, seed: int) -> Survey:
    from dask import delayed

    from components.workflows.workers import in_order

    task = delayed(survey, pure=False)
    tasks = [task(partition, schema.sources, seed) for partition in partitions]
    with progress("surveying", len(partitions), "partitions") as bar:
        return reduce(merge, in_order(workers, tasks, lambda *_: bar.advance()))


def _check(found: Survey, schema: TableSchema, partitions: Sequence[Partition], place: str) -> None:
    """Checks that every split has rows, that both labels occur unless they are numbers, and that no group is cut."""
    for split, rows, positive in zip(SPLITS, found.rows.tolist(), found.positive.tolist(), strict=True):
        if split not in schema.splits:
            continue
        if not rows:
            raise KfrecError(f"{place}: split: no row is left in the {split} split; correct the split")
        if positive in (0, rows) and not schema.label.number:
            if 0 < found.positive.sum() < found.rows.sum():
                only = "negative" if positive == 0 else "positive"
                raise KfrecError(
                    f"{place}: split: all {rows} rows of the {split} split are {only} by column {schema.label.column}, "
                    "so no AUC can be measured on them; split in another way"
                )
            raise KfrecError(
                f"{place}: label: {positive} of {rows} rows of the {split} split are positive by column "
                f"{schema.label.column}; a label needs both values: correct above, below, equals or in"
            )
    for (one, groups), (other, others) in combinations(zip(SPLITS, found.groups, strict=True), 2):
        shared = np.intersect1d(groups, others, assume_unique=True)
        if not (len(shared) and schema.group):
            continue
        name = find_group(partitions, int(shared[0]))
        raise KfrecError(
            f"{place}: split: {len(shared)} groups of column {schema.group.column}, such as {name}, lie in both "
            f"{one} and {other}; split by random, which keeps groups whole, or by a column that is the same for "
            "all rows of a group"
        )


def _fitted(
    workers: Workers,
    partitions: Sequence[Partition],
    schema: TableSchema,
    found: Survey,
    given: Fitted | None,
    parameters: PreprocessTable,
    scratch: Path,
    place: str,
) -> tuple[Fitted, dict[str, Any]]:
    """The statistics to encode with, and metadata: fitted, kept, or refitted if too many values are unknown.

    Those that are kept are extended by the columns that they lack.
    """
    notes: dict[str, Any] = {"vocabulary": "fitted", "out_of_vocabulary_rate": 0.0}
    if given is not None:
        known = {**given.vocabularies, **given.numbers}
        fitted = [each for each in schema.sources if each.vocabulary or isinstance(each.treatment, Numeric)]
        added = [each for each in fitted if each.name not in known]
        kept = [each for each in fitted if each.name in known]
        rate, limit = _unknown(partitions, kept, given), parameters.out_of_vocabulary_limit
        notes = {"vocabulary": "kept" if rate <= limit else "refitted", "out_of_vocabulary_rate": rate}
        print(f"{rate:.2%} of the values are unknown (limit {limit:.2%}): vocabulary {notes['vocabulary']}")
        if rate <= limit:
            if not added:
                return given, notes
            print(f"fitted for the columns that it lacks: {', '.join(source.column for source in added)}")
            new = _fit(workers, partitions, added, found, scratch, place)
            return Fitted({**given.vocabularies, **new.vocabularies}, {**given.numbers, **new.numbers}), notes
    return _fit(workers, partitions, schema.sources, found, scratch, place), notes


def _fit(
    workers: Workers,
    partitions: Sequence[Partition],
    sources: Sequence[Source],
    found: Survey,
    scratch: Path,
    place: str,
) -> Fitted:
    """The statistics of the training rows of some columns."""
    from components.datasets.tabular.encoding import fit_vocabularies

    vocabularies = fit_vocabularies(workers, partitions, sources, scratch / "fitted")
    for source in sources:
        if source.vocabulary and not len(vocabularies[source.name]):
            least = source.vocabulary.at_least
            what, remedy = f"no value occurs {least} times", "lower at_least, or drop the column"
            if least == 1:
                what, remedy = "no row has a value", "drop the column"
            raise KfrecError(f"{place}: columns: {source.column}: {what} among the training rows; {remedy}")
        if isinstance(source.treatment, Numeric) and not found.numbers[source.name].known:
            raise KfrecError(
                f"{place}: columns: {source.column}: no row has a number among the training rows; drop the column"
            )
    for source in sources:
        if isinstance(source.treatment, Numeric) and source.treatment.scale == "none" and not source.treatment.log:
            largest = float(np.abs(found.numbers[source.name].sample).max(initial=0.0))
            if source.treatment.number and largest > _LARGE:
                warn(
                    "preprocess",
                    f"scale of {source.column}",
                    f"{place}: columns: {source.column} has numbers up to {largest:.3g} and scale: none, with which "
                    "models do not train well; leave scale out, or set log: true",
                )
    numbers = {
        source.name: fit_number(source.treatment, found.numbers[source.name])
        for source in sources
        if isinstance(source.treatment, Numeric)
    }
    return Fitted(vocabularies, numbers)


def _unknown(partitions: Sequence[Partition], sources: Sequence[Source], given: Fitted) -> float:
    """The out-of-vocabulary share of the training rows' values, over all columns with a vocabulary."""
    values = unknown = 0
    for partition in partitions:
        for source in sources:
            if source.vocabulary:
                column = partition.train_rows([source.name])[source.name].combine_chunks()
                column = column.flatten() if isinstance(source.treatment, Multihot) else column.drop_null()
                known = pc.is_in(column, value_set=given.vocabularies[source.name])
                values += len(column)
                unknown += len(column) - (pc.sum(known).as_py() or 0)
    return unknown / values if values else 0.0


def _encode(
    workers: Workers,
    partitions: Sequence[Partition],
    schema: TableSchema,
    found: Survey,
    fitted: Fitted,
    job: PreprocessJob,
) -> FeatureSpec:
    """Writes the samples below the job's output; returns their features and channels."""
    from dask import delayed

    from components.datasets.tabular.encoding import Encoder, build_workflow, features

    described, channels = features(fitted, schema)
    groups = job.scratch / "groups.npy"
    np.save(groups, reduce(np.union1d, found.groups))
    (job.scratch / "workflow").mkdir()
    encoder = Encoder(schema, described, build_workflow(fitted, schema.sources, job.scratch / "workflow"), groups)
    for split in schema.splits:
        (job.output / split).mkdir()
    with progress("writing samples", len(partitions), "partitions") as bar:
        task = delayed(encoder.write, pure=False)
        tasks = [task(partition, number, job.output) for number, partition in enumerate(partitions)]
        for _ in workers.run(tasks):
            bar.advance()
    return FeatureSpec(described, {}, channels)
