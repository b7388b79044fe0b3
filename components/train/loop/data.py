"""The records of one training: both splits, what a batch of them looks like, and how many steps an epoch has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.models.ops.choice import has_gpu
from components.native import arrays
from components.records import Records
from components.records.files import rows_per_file
from components.records.lanes import needed_files
from components.steps.batch_size import require_divisible
from components.steps.catalog import TrainParameters
from components.train.loop.memory import cache_bytes
from components.train.loop.ranks import Ranks
from components.train.loop.transfer import Transfer, id_type, transfer

TRAIN, TEST, VALIDATION = "train", "test", "validation"


@dataclass(frozen=True)
class TrainingData:
    """Both splits of a data set, as one rank reads them.

    Attributes:
        spec: its feature specification.
        train: reader of the training split, without the samples that are held out of it.
        test: reader of the samples that are measured: of the test split, or those that are held out.
        label: name of the label feature.
        scored: features that scoring the test split needs beside the label.
    """

    spec: FeatureSpec
    train: Records
    test: Records
    label: str
    scored: tuple[str, ...]
    parameters: TrainParameters
    ranks: Ranks

    @property
    def measured(self) -> str:
        """What is measured, in the names of metrics: "test", or "validation" for samples held out of the training."""
        return VALIDATION if self.parameters.validation_share else TEST

    @property
    def passes(self) -> int:
        """Times an epoch goes through the training split."""
        return max(1, self.parameters.repeat_count)

    @property
    def steps_per_pass(self) -> int:
        return self.train.steps(self.parameters.global_batch_size, drop_remainder=self.parameters.drop_remainder)

    @property
    def steps_per_epoch(self) -> int:
        return self.passes * self.steps_per_pass

    @property
    def rows_per_epoch(self) -> int:
        """Samples of an epoch over all ranks."""
        return self.passes * sum(self.rows_of(step) for step in range(self.steps_per_pass))

    def rows_of(self, step: int) -> int:
        """Samples of an epoch's step over all ranks."""
        size = self.parameters.global_batch_size
        return min(size, self.train.rows - (step % self.steps_per_pass) * size)

    def one_size(self, split_rows: int) -> int:
        """To how many samples a rank fills its batches of a split up; 0 where batches may be of any size.

        XLA compiles anew for every size; on a GPU it always compiles parts of a step. On a CPU without it the last
        batch costs less as it is.

        Args:
            split_rows: samples of the split.
        """
        if not (self.parameters.xla or has_gpu()):
            return 0
        return -(-min(self.parameters.global_batch_size, split_rows) // self.ranks.size)

    def training_batches(self, seed: int, epoch: int, first_step: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of each global batch of an epoch, from ``first_step`` on, in the order of the seed."""
        first_pass, first_step = divmod(first_step, self.steps_per_pass)
        for number in range(first_pass, self.passes):
            yield from self.train.batches(
                self.parameters.global_batch_size,
                rank=self.ranks.rank,
                size=self.ranks.size,
                seed=seed,
                epoch=epoch * self.passes + number,
                first_step=first_step if number == first_pass else 0,
                drop_remainder=self.parameters.drop_remainder,
            )

    def test_batches(self) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of each global batch of the test split, in file order."""
        return self.test.batches(self.parameters.global_batch_size, rank=self.ranks.rank, size=self.ranks.size)

    def full_test_batches(self) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of full global batches, over and over the test split, without end.

        What is left of a pass makes no batch; a split smaller than a batch is read as a whole for each and repeated
        until it fills one.
        """
        size, ranks, rows = self.parameters.global_batch_size, self.ranks, self.test.rows
        if rows >= size:
            while True:
                yield from self.test.batches(size, rank=ranks.rank, size=ranks.size, drop_remainder=True)
        share = size // ranks.size
        chosen = np.arange(ranks.rank * share, (ranks.rank + 1) * share) % rows
        while True:
            for batch in self.test.batches(rows):
                yield {name: _rows(values, chosen) for name, values in batch.items()}

    def signature(self, records_features: tuple[str, ...]) -> dict[str, tf.TensorSpec]:
        """Shapes of a batch with these features, floats or ids of :func:`id_type`, rows unknown."""
        features = {name: self.spec.features[name] for name in records_features}
        return {
            name: tf.TensorSpec(
                (None,) if feature.length is None else (None, feature.length),
                tf.float32 if feature.is_float else id_type(),
                name=name,
            )
            for name, feature in features.items()
        }

    @cached_property
    def train_transfer(self) -> Transfer:
        """How batches of the training split are handed over: the label and every feature that models read."""
        return transfer(self.signature((self.label, *_channel_features(self.spec))))

    @cached_property
    def test_transfer(self) -> Transfer:
        """How batches of the test split are handed over."""
        return transfer(self.signature((self.label, *self.scored)))


def _rows(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    out = arrays.empty((len(chosen), *values.shape[1:]), values.dtype.type)
    return np.take(values, chosen, axis=0, out=out, mode="clip")  # which writes to it at once


def open_data(folder: Path, parameters: TrainParameters, ranks: Ranks, scored: tuple[str, ...]) -> TrainingData:
    """Opens a data set and checks that this training can use it.

    Args:
        folder: holds the feature specification and the record files.
        parameters: of the training.
        ranks: who trains together.
        scored: features that scoring the test split needs beside the label.

    Raises:
        KfrecError: no specification, records that disagree with it, or a batch size that cannot be dealt out.
    """
    spec = load_feature_spec(folder, parameters.feature_spec)
    require_divisible(parameters.global_batch_size, ranks.size)
    label = label_of(spec)
    cache = 0 if parameters.disable_cache else cache_bytes(ranks.local_size)
    rows = rows_per_file(spec, TRAIN)
    kept = 1 - parameters.validation_share
    files = needed_files(rows, parameters.global_batch_size, [ranks.rank], ranks.size) if rows and kept == 1 else None
    features = (label, *_channel_features(spec))
    train = Records(
        spec, TRAIN, features, cache_bytes=cache, files=files, threads=parameters.num_parallel_calls, part=(0, kept)
    )
    held_out = parameters.validation_share > 0
    test = Records(spec, TRAIN, (label, *scored), part=(kept, 1)) if held_out else Records(spec, TEST, (label, *scored))
    _require_prebatch_size(spec, train, parameters.prebatch_train_size)
    if not held_out:
        _require_prebatch_size(spec, test, parameters.prebatch_test_size)
    data = TrainingData(spec, train, test, label, scored, parameters, ranks)
    if held_out and not test.rows:
        raise KfrecError(
            f"parameter validation_share={parameters.validation_share:g}: holds out none of {train.rows} training "
            "samples; raise it, or set it to 0"
        )
    if not test.rows:
        raise KfrecError(f"{folder}: the test split has no samples; convert the data again")
    if not data.steps_per_pass:
        raise KfrecError(
            f"{folder}: {train.rows} training samples make no batch of {parameters.global_batch_size}; "
            "lower global_batch_size or turn drop_remainder off"
        )
    return data


def _require_prebatch_size(spec: FeatureSpec, records: Records, size: int) -> None:
    """Refuses a prebatch size that is not that of the records, whether the specification says theirs or not.

    Raises:
        KfrecError: it is another one; 0 fits any.
    """
    noted = spec.noted_prebatch_size(records.split)
    # The last record of a split holds the rest, so that one record alone fits any size.
    held = noted if noted is not None else records.first_record_rows if records.count > 1 else size
    if size and size != held:
        raise KfrecError(
            f"parameter prebatch_{records.split}_size={size}, but a record of the {records.split} split in "
            f"{spec.folder} holds {held or 1}; leave it at 0, or convert the data again"
        )


def label_of(spec: FeatureSpec) -> str:
    """Name of the one feature in the label channel."""
    (label,) = spec.channel(Channel.LABEL)
    return label.name


def _channel_features(spec: FeatureSpec) -> tuple[str, ...]:
    """Features of every channel that models read, each once."""
    unread = (Channel.LABEL, Channel.GROUP)
    listed = (name for channel, names in spec.channels.items() if channel not in unread for name in names)
    return tuple(dict.fromkeys(listed))
