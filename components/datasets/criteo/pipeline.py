"""The passes over the partitions: count values, fit or reuse the vocabulary, write samples."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dask import delayed

from components.datasets.criteo import vocabulary
from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL, SAMPLE
from components.datasets.criteo.partitions import Span
from components.datasets.criteo.vocabulary import Ids, read_ids
from components.feature_spec.vocabulary import VOCABULARY
from components.progress import progress
from components.workflows.workers import Workers, in_order

if TYPE_CHECKING:
    from components.datasets.criteo.parameters import PreprocessImpressions


@dataclass(frozen=True)
class ChosenVocabulary:
    """The vocabulary to encode with.

    Attributes:
        vocabulary: "fitted", "kept", or "refitted" if too many values were unknown.
        out_of_vocabulary_rate: see ``vocabulary.unknown``; over all columns.
    """

    sizes: dict[str, int]
    vocabulary: str
    out_of_vocabulary_rate: float


def choose_vocabulary(
    workers: Workers,
    train: Sequence[Span],
    earlier: Path | None,
    parameters: PreprocessImpressions,
    lookups: Path,
    output: Path,
    scratch: Path,
) -> ChosenVocabulary:
    """Counts the values of the training split, and fits or reuses the vocabulary.

    Args:
        earlier: folder with the vocabulary to reuse; None fits a new one.
        output: the artifact's folder, with an empty folder vocabulary.
    """
    files = [scratch / f"counts-{number}.npz" for number in range(len(train))]
    with progress("counting values", sum(span.rows for span in train), "impressions") as bar:
        count = delayed(vocabulary.write_counts, pure=False)
        tasks = [count(span, path) for span, path in zip(train, files, strict=True)]
        in_order(workers, tasks, lambda index, _: bar.advance(train[index].rows))
    threshold, kind, rate = parameters.frequency_threshold, "fitted", 0.0
    with progress("fitting the vocabulary", len(CATEGORICAL), "columns") as bar:
        if earlier is not None:
            sizes = [vocabulary.reuse(name, earlier, lookups) for name in CATEGORICAL]
            ask = delayed(vocabulary.unknown, pure=False)
            results = in_order(workers, [ask(name, files, threshold, lookups) for name in CATEGORICAL])
            rate = sum(missed for missed, _ in results) / max(sum(every for _, every in results), 1)
            limit = parameters.out_of_vocabulary_limit
            kind = "kept" if rate <= limit else "refitted"
            print(f"{rate:.2%} of the values are frequent and unknown (limit {limit:.2%}): vocabulary {kind}")
            if kind == "kept":
                shutil.copytree(earlier / VOCABULARY, output / VOCABULARY, dirs_exist_ok=True)
        if kind != "kept":
            fit = delayed(vocabulary.fit, pure=False)
            tasks = [fit(name, files, threshold, lookups, output) for name in CATEGORICAL]
            sizes = in_order(workers, tasks, lambda *_: bar.advance(1))
    return ChosenVocabulary(dict(zip(CATEGORICAL, sizes, strict=True)), kind, rate)


def write_split(workers: Workers, spans: Sequence[Span], lookups: Path, folder: Path) -> int:
    """Creates ``folder`` with part.N.parquet for each span; returns the number of samples."""
    folder.mkdir()
    with progress(f"writing {folder.name} samples", sum(span.rows for span in spans), "impressions") as bar:
        write = delayed(write_samples, pure=False)
        tasks = [write(span, lookups, folder / f"part.{number}.parquet") for number, span in enumerate(spans)]
        return sum(in_order(workers, tasks, lambda index, _: bar.advance(spans[index].rows)))


_ROW_GROUP = 65_536


def write_samples(span: Span, lookups: Path, output: Path) -> int:
    """Writes the samples of impressions; returns their number."""
    table = span.read()
    columns = [table[name] for name in (LABEL, *NUMERICAL)]
    columns += [_encoded(table[name].combine_chunks(), read_ids(lookups, name)) for name in CATEGORICAL]
    samples = pa.table([column.cast(field.type) for column, field in zip(columns, SAMPLE, strict=True)], schema=SAMPLE)
    pq.write_table(
        samples, output, row_group_size=_ROW_GROUP, compression="lz4", use_dictionary=False, write_statistics=False
    )
    return samples.num_rows


def _encoded(values: pa.Array, known: Ids) -> pa.Array:
    """Ids; each distinct value is looked up once."""
    encoded = values.dictionary_encode()
    ids = np.append(known.find(encoded.dictionary.to_numpy()), np.int32(0))
    positions = pc.fill_null(encoded.indices, len(ids) - 1).to_numpy()
    return pa.array(ids[positions])
