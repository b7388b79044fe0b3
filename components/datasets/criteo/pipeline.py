"""The passes over the partitions: count values, fit or reuse the vocabulary, write samples."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dask import delayed

from components.datasets.criteo import vocabulary
from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL, SAMPLE
from components.datasets.criteo.partitions import Span
from components.datasets.criteo.vocabulary import Ids, read_ids
from components.feature_spec.living import GROWN, Rules, Turnover
from components.feature_spec.vocabulary import VOCABULARY
from components.progress import progress
from components.workflows.workers import Workers, in_order

if TYPE_CHECKING:
    from components.datasets.criteo import PreprocessImpressions


@dataclass(frozen=True)
class ChosenVocabulary:
    """The vocabulary to encode with.

    Attributes:
        sizes: the largest id of each column, or its capacity where it grows.
        vocabulary: "fitted", "kept", "grown", or "refitted" if too many values were unknown.
        out_of_vocabulary_rate: see ``vocabulary.unknown``; over all columns.
        turnover: what came and went in all columns, if it has grown.
    """

    sizes: dict[str, int]
    vocabulary: str
    out_of_vocabulary_rate: float
    turnover: Turnover | None = None


def choose_vocabulary(
    workers: Workers,
    by_day: Mapping[int, Sequence[Span]],
    earlier: Path | None,
    parameters: PreprocessImpressions,
    lookups: Path,
    output: Path,
    scratch: Path,
) -> ChosenVocabulary:
    """Counts the values of the training split, and fits, reuses or grows the vocabulary.

    Args:
        by_day: the training split, without what it replays, oldest day first.
        earlier: folder with the vocabulary to reuse; None fits a new one.
        output: the artifact's folder, with an empty folder vocabulary.
    """
    train = [span for spans in by_day.values() for span in spans]
    files = [scratch / f"counts-{number}.npz" for number in range(len(train))]
    given = iter(files)
    days = {day: list(itertools.islice(given, len(spans))) for day, spans in by_day.items()}
    with progress("counting values", sum(span.rows for span in train), "impressions") as bar:
        count = delayed(vocabulary.write_counts, pure=False)
        tasks = [count(span, path) for span, path in zip(train, files, strict=True)]
        in_order(workers, tasks, lambda index, _: bar.advance(train[index].rows))
    if earlier is not None and parameters.vocabulary_slack:
        return _grown(workers, days, earlier, parameters, lookups, output)
    threshold, kind, rate = parameters.frequency_threshold, "fitted", 0.0
    with progress("fitting the vocabulary", len(CATEGORICAL), "columns") as bar:
        if earlier is not None:
            sizes = [vocabulary.reuse(name, earlier, lookups) for name in CATEGORICAL]
            rate, limit = _unknown_rate(workers, files, threshold, lookups), parameters.out_of_vocabulary_limit
            kind = "kept" if rate <= limit else "refitted"
            print(f"{rate:.2%} of the values are frequent and unknown (limit {limit:.2%}): vocabulary {kind}")
            if kind == "kept":
                shutil.copytree(earlier / VOCABULARY, output / VOCABULARY, dirs_exist_ok=True)
        if kind != "kept":
            fit = delayed(vocabulary.fit, pure=False)
            tasks = [fit(name, files, threshold, lookups, output) for name in CATEGORICAL]
            sizes = in_order(workers, tasks, lambda *_: bar.advance(1))
        if kind != "kept" and parameters.vocabulary_slack:
            begin, used = delayed(vocabulary.begin, pure=False), sum(sizes)
            slack = parameters.vocabulary_slack
            sizes = in_order(workers, [begin(name, days, slack, lookups, output) for name in CATEGORICAL])
            print(f"a vocabulary with {sum(sizes):,} rows, {sum(sizes) - used:,} of them free")
    return ChosenVocabulary(dict(zip(CATEGORICAL, sizes, strict=True)), kind, rate)


def _grown(
    workers: Workers,
    days: vocabulary.DayCounts,
    earlier: Path,
    parameters: PreprocessImpressions,
    lookups: Path,
    output: Path,
) -> ChosenVocabulary:
    """The earlier vocabulary after these days."""
    threshold, files = parameters.frequency_threshold, [path for each in days.values() for path in each]
    rules = Rules(vocabulary.FIRST_ID, threshold, parameters.evict_after, parameters.evict_share)
    grow = delayed(vocabulary.grow, pure=False)
    with progress("growing the vocabulary", len(CATEGORICAL), "columns") as bar:
        tasks = [grow(name, earlier, days, rules, lookups, output) for name in CATEGORICAL]
        results = in_order(workers, tasks, lambda *_: bar.advance(1))
    sizes = {name: capacity for name, (capacity, _) in zip(CATEGORICAL, results, strict=True)}
    turnover = Turnover(sum(each.admitted for _, each in results), sum(each.evicted for _, each in results))
    rate = _unknown_rate(workers, files, threshold, lookups)
    print(
        f"vocabulary grown: {turnover.admitted:,} values got a row, {turnover.evicted:,} lost theirs; {rate:.2%} of "
        "the values are frequent and have none"
    )
    return ChosenVocabulary(sizes, GROWN, rate, turnover)


def _unknown_rate(workers: Workers, files: Sequence[Path], threshold: int, lookups: Path) -> float:
    ask = delayed(vocabulary.unknown, pure=False)
    results = in_order(workers, [ask(name, files, threshold, lookups) for name in CATEGORICAL])
    return sum(missed for missed, _ in results) / max(sum(every for _, every in results), 1)


class Written(NamedTuple):
    """The samples of a split.

    Attributes:
        values: that are not missing, over all columns.
        unknown: those of them without an id.
    """

    rows: int
    values: int
    unknown: int


def write_split(workers: Workers, spans: Sequence[Span], lookups: Path, folder: Path) -> Written:
    """Creates ``folder`` with part.N.parquet for each span."""
    folder.mkdir()
    with progress(f"writing {folder.name} samples", sum(span.rows for span in spans), "impressions") as bar:
        write = delayed(write_samples, pure=False)
        tasks = [write(span, lookups, folder / f"part.{number}.parquet") for number, span in enumerate(spans)]
        parts = in_order(workers, tasks, lambda index, _: bar.advance(spans[index].rows))
    return Written(*map(sum, zip(*parts, strict=True)))


_ROW_GROUP = 65_536


def write_samples(span: Span, lookups: Path, output: Path) -> Written:
    table = span.read()
    columns = [table[name] for name in (LABEL, *NUMERICAL)]
    columns += [_encoded(table[name].combine_chunks(), read_ids(lookups, name)) for name in CATEGORICAL]
    samples = pa.table([column.cast(field.type) for column, field in zip(columns, SAMPLE, strict=True)], schema=SAMPLE)
    pq.write_table(
        samples, output, row_group_size=_ROW_GROUP, compression="lz4", use_dictionary=False, write_statistics=False
    )
    there = [table.num_rows - table[name].null_count for name in CATEGORICAL]
    known = [int(np.count_nonzero(samples[name])) for name in CATEGORICAL]
    return Written(samples.num_rows, sum(there), sum(there) - sum(known))


def _encoded(values: pa.Array, known: Ids) -> pa.Array:
    """Ids; each distinct value is looked up once."""
    encoded = values.dictionary_encode()
    ids = np.append(known.find(encoded.dictionary.to_numpy()), np.int32(0))
    positions = pc.fill_null(encoded.indices, len(ids) - 1).to_numpy()
    return pa.array(ids[positions])
