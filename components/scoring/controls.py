"""Scores of a task's controls: of the model with changed input, and of baselines without the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from components.artifacts import open_input
from components.feature_spec import FeatureSpec
from components.progress import progress
from components.random_draws import hashes
from components.scoring.columns import KeptColumns
from components.scoring.model import ExportedModel, NotFinite, joined
from components.scoring.split import in_place, targets_of, translated
from components.tasks import Baselines, Controlled, Controls, Kept, Samples, Scores

_AT_ONCE = 16_384  # samples


def score_controls(
    controls: Controls,
    spec: FeatureSpec,
    model: ExportedModel,
    scores: Scores,
    *,
    keep: Sequence[Kept],
    tfrecord: Path,
    batch_size: int,
    lookups: Mapping[str, np.ndarray],
) -> Controlled:
    """Scores a sample of the test split: all of it if it is small enough, or else random blocks or groups.

    Args:
        tfrecord: the records, possibly a reference; the files with the training samples are fetched.
        lookups: as in ``components.scoring.split.score_split``.

    Raises:
        KfrecError: a record is corrupt, or training records are missing.
    """
    from components.records import Records  # with Numba, as in score_split

    columns = KeptColumns(spec, keep)
    baselines = controls.baselines
    probed = [name for probe in (*controls.probes, *controls.columns) for name in probe.reads]
    held = baselines.features if baselines else ()
    targets = [target.name for target in spec.targets]
    together = filter(None, (controls.together,))
    wanted = dict.fromkeys((*targets, *columns.features, *model.inputs, *probed, *held, *together))
    records = Records(spec, "test", list(wanted))
    all_rows = records.rows <= controls.samples
    if all_rows or not controls.together:
        # Blocks keep the samples of a user together if the split does, and are read alone.
        samples: Samples = next(records.batches(min(records.rows, controls.samples), seed=None if all_rows else 0))
    else:
        share = np.uint64(controls.samples / records.rows * 2**64)
        samples = _of_groups(records.batches(_AT_ONCE), controls.together, share)
    columns.add(samples)
    passes = [probe for probe in controls.probes if not set(model.inputs).isdisjoint(probe.changes)]
    lengths = columns.newest_count()
    order = None if lengths is None else np.argsort(-lengths, kind="stable")
    rows = len(samples[model.inputs[0]])
    with progress("scoring controls", rows * (len(passes) + (not all_rows)), "samples") as bar:

        def scored(changed: Samples) -> dict[str, np.ndarray]:
            features = {name: changed.get(name, samples[name]) for name in model.inputs}
            return _scores(model, features, order, batch_size, lookups, bar.advance)

        sample = scores
        if not all_rows:
            kept = columns.arrays()
            sample = Scores(targets_of(spec, samples), scored({}), kept, columns.names(kept))
        others: dict[str, np.ndarray | None] = {}
        for probe in controls.probes:
            outputs = _or_none(scored, probe.change(samples)) if probe in passes else sample.outputs
            others[probe.name] = None if outputs is None else outputs[controls.output]
    part = np.random.default_rng(0).permutation(rows)[: controls.column_samples]
    columns_changed = _columns(controls, model, samples, part, batch_size, lookups)
    trained = fit_baselines(baselines, spec, tfrecord, controls.training_samples) if baselines else 0
    if baselines is None:
        return Controlled(sample, others, trained, {}, part, columns_changed)
    return Controlled(
        sample,
        others | baselines.scores({**sample.outputs, **samples}),
        trained,
        baselines.about,
        part,
        columns_changed,
    )


def _columns(
    controls: Controls,
    model: ExportedModel,
    samples: Samples,
    part: np.ndarray,
    batch_size: int,
    lookups: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The model's output for a part of the samples with one column changed, by column that the model reads."""
    read = [probe for probe in controls.columns if not set(model.inputs).isdisjoint(probe.changes)]
    found = {}
    with progress("scoring shuffled columns", len(read) * len(part), "samples") as bar:
        given = {name: values[part] for name, values in samples.items()}
        for probe in read:
            features = {
                name: values for name, values in {**given, **probe.change(given)}.items() if name in model.inputs
            }
            found[probe.name] = _scores(model, features, None, batch_size, lookups, bar.advance)[controls.output]
    return found


def _of_groups(batches: Iterator[Samples], group: str, below: np.uint64) -> Samples:
    """The samples of the groups whose hashed ids are below a number."""
    parts = [{name: values[hashes(batch[group]) < below] for name, values in batch.items()} for batch in batches]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def fit_baselines(baselines: Baselines, spec: FeatureSpec, tfrecord: Path, samples: int) -> int:
    """Fits on the first samples of the training split, whose order is random; reads nothing else.

    Args:
        tfrecord: the records, possibly a reference.
        samples: at most so many are read; in two halves.

    Returns:
        The number of samples read.
    """
    from components.records import Records
    from components.records.files import rows_per_file

    counts = rows_per_file(spec, "train")
    files = len(spec.sources["train"].files)
    if counts is not None:
        files = min(int(np.searchsorted(np.cumsum(counts), min(samples, sum(counts)))) + 1, files)
    spec = replace(spec, folder=_staged(tfrecord, spec.sources["train"].files[:files]))
    features = list(baselines.features)
    total = Records(spec, "train", features, files=range(files)).rows
    read = min(samples, total)

    def half(begin: float, end: float) -> Iterator[Samples]:
        part = Records(spec, "train", features, files=range(files), part=(begin * read / total, end * read / total))
        return part.batches(_AT_ONCE) if part.rows else iter(())

    if read:
        baselines.fit(half(0.0, 0.5), half(0.5, 1.0))
    return read


def _staged(tfrecord: Path, files: Sequence[str]) -> Path:
    """The folder with these record files and their indices."""
    from components.records.framing import index_path

    reads = [name for file in files for name in (file, str(index_path(Path(file))))]
    return open_input(tfrecord, steps=("tfrecord",), reads=reads).path


def _scores(
    model: ExportedModel,
    samples: Samples,
    order: np.ndarray | None,
    batch_size: int,
    lookups: Mapping[str, np.ndarray],
    advance: Callable[[int], None],
) -> dict[str, np.ndarray]:
    """The model's outputs; computed in an order of falling lengths, as in score_split."""
    rows = len(samples[model.inputs[0]])
    if not rows:
        return model.nothing()
    scores = []
    for first in range(0, rows, batch_size):
        part: slice | np.ndarray = slice(first, first + batch_size)
        part = part if order is None else order[part]
        scores.append(model.begin(translated({name: values[part] for name, values in samples.items()}, lookups))())
        advance(min(batch_size, rows - first))
    return {name: in_place(values, slice(None) if order is None else order) for name, values in joined(scores).items()}


def _or_none(scored: Callable[[Samples], dict[str, np.ndarray]], changed: Samples) -> dict[str, np.ndarray] | None:
    """None if the model returns no numbers for input that it was not made for."""
    try:
        return scored(changed)
    except NotFinite:
        return None
