"""The records of one training: both splits, batch signatures, and steps per epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
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
    """One rank's view of both splits of a data set.

    Attributes:
        spec: its feature specification.
        train: reader of the training split, without held-out samples.
        test: reader of the evaluation samples: the test split, or the held-out samples.
        label: name of the label feature.
        scored: features for scoring the test split, without the label.
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
        """Prefix of evaluation metrics: "test", or "validation" for samples held out of the training."""
        return VALIDATION if self.parameters.validation_share else TEST

    @property
    def passes(self) -> int:
        """Passes over the training split per epoch."""
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
        """The size to which a rank pads its batches of a split; 0 for no padding.

        XLA recompiles for every batch size, and on a GPU it always compiles parts of a step. On a CPU without XLA a
        smaller last batch is cheaper.

        Args:
            split_rows: samples of the split.
        """
        if not (self.parameters.xla or has_gpu()):
            return 0
        return -(-min(self.parameters.global_batch_size, split_rows) // self.ranks.size)

    def training_batches(self, seed: int, epoch: int, first_step: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of each global batch of an epoch, from ``first_step`` on, shuffled by the seed."""
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
        """This rank's share of full global batches of the endlessly repeated test split.

        The remainder of a pass is dropped; a split smaller than a batch is repeated within each batch.
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
        """Signature of a batch with these features, float32 or :func:`id_type`; the batch size is None."""
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
        """Transfer of training batches: the label and every feature that models read."""
        return transfer(self.signature((self.label, *_channel_features(self.spec))))

    @cached_property
    def test_transfer(self) -> Transfer:
        """Transfer of test batches."""
        return transfer(self.signature((self.label, *self.scored)))


def _rows(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    out = arrays.empty((len(chosen), *values.shape[1:]), values.dtype.type)
    return np.take(values, chosen, axis=0, out=out, mode="clip")  # clip: numpy then writes to out without a buffer


def open_data(spec: FeatureSpec, parameters: TrainParameters, ranks: Ranks, scored: tuple[str, ...]) -> TrainingData:
    """Opens a data set and checks that this training can use it.

    Args:
        spec: its feature specification.
        parameters: of the training.
        ranks: of this training.
        scored: features for scoring the test split, without the label.

    Raises:
        KfrecError: records that do not match the specification, or a batch size not divisible by the ranks.
    """
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
        raise KfrecError(f"{spec.folder}: the test split has no samples; convert the data again")
    if not data.steps_per_pass:
        raise KfrecError(
            f"{spec.folder}: {train.rows} training samples make no batch of {parameters.global_batch_size}; "
            "lower global_batch_size or turn drop_remainder off"
        )
    return data


def _require_prebatch_size(spec: FeatureSpec, records: Records, size: int) -> None:
    """Checks the prebatch size against the specification, or else against the first record.

    Raises:
        KfrecError: the sizes differ; 0 matches any size.
    """
    noted = spec.noted_prebatch_size(records.split)
    # The last record of a split may be smaller, so a single record matches any size.
    held = noted if noted is not None else records.first_record_rows if records.count > 1 else size
    if size and size != held:
        raise KfrecError(
            f"parameter prebatch_{records.split}_size={size}, but a record of the {records.split} split in "
            f"{spec.folder} holds {held or 1}; leave it at 0, or convert the data again"
        )


def label_of(spec: FeatureSpec) -> str:
    """Name of the feature in the label channel."""
    (label,) = spec.channel(Channel.LABEL)
    return label.name


def _channel_features(spec: FeatureSpec) -> tuple[str, ...]:
    """Distinct features of the channels that models read."""
    unread = (Channel.LABEL, Channel.GROUP)
    listed = (name for channel, names in spec.channels.items() if channel not in unread for name in names)
    return tuple(dict.fromkeys(listed))
