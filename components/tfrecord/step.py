"""Samples in parquet become record files: validated, globally shuffled, with a feature specification."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.artifacts import Artifact, open_input, publishing
from components.checks import PROFILE
from components.errors import KfrecError
from components.feature_spec import Chunk, FeatureSpec, Vocabulary
from components.feature_spec.side_tables import SIDE_TABLES
from components.feature_spec.spec import FILENAME, TEST, TRAIN, VALIDATION
from components.feature_spec.vocabulary import VOCABULARY
from components.parameters import PREBATCH_SIZES
from components.progress import progress, warn
from components.records.layout import layout_of
from components.steps.catalog import TfrecordParameters
from components.steps.recorded import recorded
from components.tfrecord.convert import convert_split, in_order
from components.tfrecord.row_groups import RowGroup, row_groups
from components.tfrecord.samples import LongerList, longest_list
from components.tfrecord.schema import Column, declared_lengths, read_columns, read_metadata, read_vocabularies
from components.tfrecord.shards import Permutation, ShardPlan, plan_shards

# The third one is optional: data without it are validated on a part of the training samples.
SPLITS = (TRAIN, TEST, VALIDATION)


def run(parameters: TfrecordParameters, *, parquet: Path, tfrecord: Path) -> Mapping[str, int]:
    """Converts the splits; the one for validation is optional.

    Returns:
        Samples of each split.

    Raises:
        KfrecError: the parquet folder is unfinished, or its samples break feature_spec.yaml.
    """
    source = open_input(parquet, steps=("preprocess",), reads=(FILENAME, PROFILE, VOCABULARY, SIDE_TABLES, *SPLITS))
    for name in (FILENAME, PROFILE):
        source.file(name)
    columns = read_columns(source.path)
    groups = _row_groups(source, columns)
    workers = parameters.workers or len(os.sched_getaffinity(0))
    every_group = [group for split in groups for group in groups[split]]
    with publishing(tfrecord, step="tfrecord", inputs={"parquet": source}, parameters=recorded(parameters)) as staging:
        declared = declared_lengths(source.path / FILENAME, columns)
        lengths = length_by_footers(every_group, columns)
        try:
            if lengths is None:
                lengths = length_by_reading(every_group, columns, workers)
            _write(parameters, columns, declared | lengths, groups, source, staging.path, workers)
        except LongerList as error:
            if error.group in declared:
                raise _too_long(source.path, columns, declared, error) from None
            lengths = length_by_reading(every_group, columns, workers)
            _write(parameters, columns, declared | lengths, groups, source, staging.path, workers)
        for profile in source.paths(PROFILE):
            shutil.copyfile(profile, staging.path / PROFILE)
        for table in source.paths(f"{SIDE_TABLES}/*.parquet"):
            (staging.path / SIDE_TABLES).mkdir(exist_ok=True)
            shutil.copyfile(table, staging.path / SIDE_TABLES / table.name)
        staging.rows.update({split: sum(group.rows for group in groups[split]) for split in groups})
    return staging.rows


def _too_long(parquet: Path, columns: Sequence[Column], declared: Mapping[str, int], error: LongerList) -> KfrecError:
    first = next(column.feature for column in columns if column.group == error.group)
    return KfrecError(
        f"{parquet / FILENAME}: feature {first} has dimensions [{declared[error.group]}], but a list of "
        f"{error.longest} values; raise the dimensions, or cut the lists"
    )


def _row_groups(parquet: Artifact, columns: Sequence[Column]) -> dict[str, list[RowGroup]]:
    """The row groups of each split with samples, in the order of SPLITS."""
    groups = {split: row_groups(parquet, split, columns) for split in (TRAIN, TEST)}
    if parquet.paths(f"{VALIDATION}/*.parquet"):
        validation = row_groups(parquet, VALIDATION, columns, may_be_empty=True)
        if sum(group.rows for group in validation):
            groups[VALIDATION] = validation
        else:
            what = f"{parquet.path / VALIDATION}: holds no samples, so the records have no {VALIDATION} split"
            warn("tfrecord", "no validation split", what)
    return groups


def _write(
    parameters: TfrecordParameters,
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    groups: Mapping[str, Sequence[RowGroup]],
    parquet: Artifact,
    folder: Path,
    workers: int,
) -> None:
    width = sum(lengths[column.group] if column.is_list else 1 for column in columns)
    prebatch = {split: getattr(parameters, PREBATCH_SIZES[split]) for split in groups}
    plans = {
        split: plan_shards(
            split, sum(group.rows for group in groups[split]), parameters.samples_per_shard, prebatch[split], width
        )
        for split in groups
    }
    vocabularies = _copy_vocabularies(parquet, folder)
    kept = read_metadata(parquet.path)
    spec = _specification(columns, lengths, plans, prebatch, vocabularies, kept, folder)
    layout = layout_of(spec, [column.feature for column in columns])
    for number, split in enumerate(groups):
        (folder / split).mkdir(exist_ok=True)
        permutation = Permutation(plans[split].rows, parameters.seed, number)
        files = spec.files(split)
        convert_split(groups[split], columns, lengths, layout, plans[split], permutation, files, workers)
    (folder / FILENAME).write_text(spec.to_yaml())


def _specification(
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    plans: Mapping[str, ShardPlan],
    prebatch: Mapping[str, int],
    vocabularies: Sequence[Vocabulary],
    kept: Mapping[str, Any],
    folder: Path,
) -> FeatureSpec:
    names = tuple(column.feature for column in columns)
    channels: dict[str, tuple[str, ...]] = {}
    for column in columns:
        if column.channel:
            channels[column.channel] = (*channels.get(column.channel, ()), column.feature)
    sources = {
        split: Chunk(names, tuple(f"{split}/part_{number}.tfrecord" for number in range(plan.shards)))
        for split, plan in plans.items()
    }
    metadata: dict[str, Any] = {
        split: {"rows": plan.rows, "prebatch_size": prebatch[split], "rows_per_file": plan.rows_per_file}
        for split, plan in plans.items()
    }
    if vocabularies:
        metadata["vocabulary"] = {vocabulary.name: vocabulary.to_dict() for vocabulary in vocabularies}
    metadata |= kept
    features = {column.feature: column.to_feature(lengths) for column in columns}
    return FeatureSpec(features, sources, channels, metadata, folder)


def _copy_vocabularies(parquet: Artifact, folder: Path) -> tuple[Vocabulary, ...]:
    """Copies the vocabularies, so that a model can be served without the parquet data.

    Other files beside them, such as statistics of numbers, are copied, too.
    """
    files = [f"{VOCABULARY}/{path.name}" for path in parquet.paths(f"{VOCABULARY}/*")]
    vocabularies = read_vocabularies(parquet.path, files)
    for file in files:
        (folder / VOCABULARY).mkdir(exist_ok=True)
        shutil.copyfile(parquet.path / file, folder / file)
    return vocabularies


def length_by_footers(groups: Sequence[RowGroup], columns: Sequence[Column]) -> dict[str, int] | None:
    """The lengths, if the footers suggest that all lists of a group are equally long; nothing is read.

    Footers only count the values of a row group, so a longer list may still occur among shorter ones.
    """
    lengths = {}
    for column in columns:
        if column.is_list and column.length is None:
            means = {group.values[column.index] / group.rows for group in groups if group.rows}
            if len(means) != 1 or not (mean := means.pop()).is_integer():
                return None
            lengths[column.group] = int(mean)
    return lengths


def length_by_reading(groups: Sequence[RowGroup], columns: Sequence[Column], workers: int) -> dict[str, int]:
    """The lengths, from every list of one feature of each group.

    Raises:
        KfrecError: a list is empty in every row.
    """
    columns = [column for column in columns if column.length is None]
    lengths: dict[str, int] = {}
    with progress("measuring histories", sum(group.rows for group in groups), "samples") as bar:
        longest = in_order(lambda group: longest_list(group, columns), groups, workers)
        for group, longest_here in zip(groups, longest, strict=True):
            for channel, length in longest_here.items():
                lengths[channel] = max(lengths.get(channel, 0), length)
            bar.advance(group.rows)
    for channel, length in lengths.items():
        if not length:
            raise KfrecError(
                f"{groups[0].path.parent.parent}: every {channel} is empty; nothing can be learned from it"
            )
    return lengths
