"""The records of one run: samples to train on and to score, batch signatures, and steps per epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.spec import TEST, TRAIN, VALIDATION
from components.models.ops.choice import has_gpu
from components.native import arrays
from components.parameters import PREBATCH_SIZES
from components.records import Records
from components.records.files import rows_per_file
from components.records.lanes import files_of_rows, lanes_of, needed_files, rows_before, rows_of_part
from components.steps.catalog import WorkerParameters
from components.train.loop.ranks import Ranks
from components.train.loop.runtime import cache_bytes
from components.train.loop.transfer import Transfer, id_type, transfer

Part = tuple[float, float]
"""Begin and end of some samples of a split in file order, as fractions of the split."""


class Samples(NamedTuple):
    """The samples that a run reads.

    Attributes:
        measured: prefix of the metrics of the scored samples, TEST or VALIDATION; empty if none are scored.
    """

    trained: Part = (0.0, 1.0)
    measured: str = ""
    split: str = ""
    scored: Part = (0.0, 1.0)

    @property
    def cuts_groups(self) -> bool:
        """Whether the scored samples may lack others of their groups: shuffled training samples, cut anywhere."""
        return self.split == TRAIN

    def files(self, spec: FeatureSpec, split: str, global_batch_size: int, ranks: list[int], size: int) -> list[int]:
        """Numbers of a split's files that these ranks read."""
        rows = rows_per_file(spec, split) if split in (TRAIN, self.split) else []
        if rows is None:
            return list(range(len(spec.files(split))))
        trained = needed_files(rows, global_batch_size, ranks, size, self.trained) if split == TRAIN else frozenset()
        scored = files_of_rows(rows, *rows_of_part(sum(rows), self.scored)) if split == self.split else frozenset()
        return sorted(trained | scored)


def samples_of(spec: FeatureSpec, parameters: WorkerParameters) -> Samples:
    """The samples that a run reads: a training never reads the test split, and every other mode scores it.

    A training is judged by the split for validation or, in data without one, by the last training samples in file
    order; they are as random as any others, because the converter shuffles the samples.
    """
    if parameters.mode != "train":
        return Samples(measured=TEST, split=TEST)
    if parameters.benchmark:
        return Samples()
    if VALIDATION in spec.sources:
        return Samples(measured=VALIDATION, split=VALIDATION)
    kept = 1 - parameters.validation_share
    return Samples((0.0, kept), VALIDATION, TRAIN, (kept, 1.0)) if kept < 1 else Samples()


@dataclass(frozen=True)
class TrainingData:
    """One rank's view of a data set.

    Attributes:
        scored: reader of the samples to score; None if there are none.
        scored_features: features for scoring, without the targets.
    """

    spec: FeatureSpec
    samples: Samples
    train: Records
    scored: Records | None
    scored_features: tuple[str, ...]
    parameters: WorkerParameters
    ranks: Ranks

    @property
    def weight(self) -> str:
        """The feature of how much each sample counts in the loss; empty for all alike, or if the model weighs them."""
        listed = self.spec.channels.get(Channel.WEIGHT, ())
        return next((name for name in listed if self.spec.features[name].length is None), "")

    @property
    def steps_per_pass(self) -> int:
        return self.train.steps(self.parameters.global_batch_size, drop_remainder=self.parameters.drop_remainder)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch; an epoch of passes begins with a pass, any other continues where the last one ended."""
        return self.parameters.steps_per_epoch or max(1, self.parameters.repeat_count) * self.steps_per_pass

    @property
    def epochs(self) -> int:
        """Epochs to train; the last one is shorter if the limit of steps ends within it."""
        epochs, limit = self.parameters.epochs, self.parameters.max_steps
        return min(epochs, -(-limit // self.steps_per_epoch)) if limit else epochs

    def steps_of(self, epoch: int) -> int:
        """Steps of an epoch, by its index."""
        steps, limit = self.steps_per_epoch, self.parameters.max_steps
        is_limited = limit and not self.parameters.benchmark
        return min(steps, limit - epoch * steps) if is_limited else steps

    def rows_of_epoch(self, epoch: int) -> int:
        """Samples of an epoch over all ranks."""
        return sum(self.rows_of(epoch, step) for step in range(self.steps_of(epoch)))

    def rows_of(self, epoch: int, step: int) -> int:
        """Samples of a step over all ranks."""
        size, number = self.parameters.global_batch_size, self._position(epoch, step)[1]
        return min(size, self.train.rows - number * size)

    def _position(self, epoch: int, step: int) -> tuple[int, int]:
        """The pass of a step, from the first epoch on, and the step's number in it."""
        return divmod(epoch * self.steps_per_epoch + step, self.steps_per_pass)

    def positions(self, epoch: int, finished_steps: int, first_step: int = 0) -> Iterator[np.ndarray]:
        """Of each of ``training_batches``: number of the step and index of its first sample.

        Yields:
            int32 ``[2]``, as for ``components.models.draws.draws_at``.
        """
        size, rank, ranks = self.parameters.global_batch_size, self.ranks.rank, self.ranks.size
        for step in range(first_step, self.steps_of(epoch)):
            first = size * rank // ranks
            if self.rows_of(epoch, step) < size:
                number = self._position(epoch, step)[1]
                first = rows_before(self.train.rows, size, rank, ranks, lanes_of(size), number)
            yield np.array([finished_steps + step, first], np.int32)

    def one_size(self, split_rows: int, batch_size: int) -> int:
        """The size to which a rank pads its batches of a split; 0 for no padding.

        XLA recompiles for every batch size, and on a GPU it always compiles parts of a step. On a CPU without XLA a
        smaller last batch is cheaper.
        """
        if not (self.parameters.xla or has_gpu()):
            return 0
        return -(-min(batch_size, split_rows) // self.ranks.size)

    @property
    def scored_batch_size(self) -> int:
        """Samples that all ranks score at a time: no more of a rank than it differentiates at a time."""
        micro, size = self.parameters.micro_batch_size, self.parameters.global_batch_size
        return min(micro * self.ranks.size, size) if micro else size

    def micro_size(self, keeps_sparse: Sequence[bool]) -> int:
        """Samples of a rank that are differentiated at a time; 0 for all of a step.

        Args:
            keeps_sparse: per variable, whether its optimizer updates only the rows with a gradient.

        Raises:
            KfrecError: such an optimizer cannot have the dense sums of micro-batches.
        """
        micro, size = self.parameters.micro_batch_size, -(-self.parameters.global_batch_size // self.ranks.size)
        if micro and any(keeps_sparse):
            raise KfrecError(
                f"parameter micro_batch_size={micro}: gradients of micro-batches are summed as dense ones, and "
                "lazy_adam updates only the rows of a batch; take another optimizer, or set micro_batch_size to 0"
            )
        return micro if micro < size else 0

    def training_batches(self, seed: int, epoch: int, first_step: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of each global batch of an epoch, from ``first_step`` on, shuffled by the seed."""
        left = self.steps_of(epoch) - first_step
        while left > 0:
            number, batch = self._position(epoch, self.steps_of(epoch) - left)
            batches = self.train.batches(
                self.parameters.global_batch_size,
                rank=self.ranks.rank,
                size=self.ranks.size,
                seed=seed,
                epoch=number,
                first_step=batch,
                drop_remainder=self.parameters.drop_remainder,
            )
            taken = min(left, self.steps_per_pass - batch)
            yield from islice(batches, taken)
            left -= taken

    def scored_batches(self) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of each global batch of the samples to score, in file order; none without such samples."""
        if self.scored is None:
            return iter(())
        return self.scored.batches(self.scored_batch_size, rank=self.ranks.rank, size=self.ranks.size)

    def full_scored_batches(self) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of full global batches of the endlessly repeated samples to score.

        The remainder of a pass is dropped; fewer samples than a batch are repeated within each batch.
        """
        assert self.scored is not None
        size, ranks, rows = self.parameters.global_batch_size, self.ranks, self.scored.rows
        if rows >= size:
            while True:
                yield from self.scored.batches(size, rank=ranks.rank, size=ranks.size, drop_remainder=True)
        share = size // ranks.size
        chosen = np.arange(ranks.rank * share, (ranks.rank + 1) * share) % rows
        while True:
            for batch in self.scored.batches(rows):
                yield {name: _rows(values, chosen) for name, values in batch.items()}

    def signature(self, records_features: tuple[str, ...]) -> dict[str, tf.TensorSpec]:
        """Signature of a batch with these features, float32 or ``id_type``; the batch size is None."""
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
        """Transfer of training batches: the targets and every feature that models read."""
        return transfer(self.signature(_trained_features(self.spec)))

    @cached_property
    def scored_transfer(self) -> Transfer:
        """Transfer of batches to score."""
        return transfer(self.signature(tuple(dict.fromkeys((*self.targets, *self.scored_features)))))

    @property
    def targets(self) -> dict[str, tf.DType]:
        """The features of the channel ``label``, to their type in a step: float32, or ``id_type`` of integers."""
        features = self.spec.targets
        return {each.name: tf.float32 if each.is_float or each.is_bool else id_type() for each in features}


def _rows(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    out = arrays.empty((len(chosen), *values.shape[1:]), values.dtype.type)
    return np.take(values, chosen, axis=0, out=out, mode="clip")  # clip: numpy then writes to out without a buffer


def open_data(
    spec: FeatureSpec, parameters: WorkerParameters, ranks: Ranks, scored_features: tuple[str, ...]
) -> TrainingData:
    """Opens a data set and checks that this run can use it.

    Args:
        scored_features: features for scoring, without the targets.

    Raises:
        KfrecError: records that do not match the specification, or patience without samples for validation.
    """
    samples = samples_of(spec, parameters)
    cache = 0 if parameters.disable_cache else cache_bytes(ranks.local_size)
    files = samples.files(spec, TRAIN, parameters.global_batch_size, [ranks.rank], ranks.size)
    features = _trained_features(spec)
    threads = parameters.num_parallel_calls
    train = Records(spec, TRAIN, features, cache_bytes=cache, files=files, threads=threads, part=samples.trained)
    _require_prebatch_size(spec, train, parameters)
    scored = None
    if samples.split:
        files = samples.files(spec, samples.split, parameters.global_batch_size, [ranks.rank], ranks.size)
        names = tuple(dict.fromkeys((*(target.name for target in spec.targets), *scored_features)))
        scored = Records(spec, samples.split, names, files=files, part=samples.scored)
        _require_prebatch_size(spec, scored, parameters)
    data = TrainingData(spec, samples, train, scored, scored_features, parameters, ranks)
    if scored is not None and not scored.rows:
        if samples.cuts_groups:
            raise KfrecError(
                f"parameter validation_share={parameters.validation_share:g}: holds out none of {train.rows} training "
                "samples; train on more data, raise it, or set it to 0 and export the last epoch unjudged"
            )
        raise KfrecError(f"{spec.folder}: the {samples.split} split has no samples; convert the data again")
    if parameters.patience and parameters.mode == "train" and scored is None and not parameters.benchmark:
        raise KfrecError(
            f"parameter patience={parameters.patience}: no samples judge the epochs; raise validation_share, or set "
            "patience to 0"
        )
    if not data.steps_per_pass:
        raise KfrecError(
            f"{spec.folder}: {train.rows} training samples make no batch of {parameters.global_batch_size}; "
            "lower global_batch_size or turn drop_remainder off"
        )
    return data


def _require_prebatch_size(spec: FeatureSpec, records: Records, parameters: WorkerParameters) -> None:
    """Checks the prebatch size against the specification, or else against the first record.

    Raises:
        KfrecError: the sizes differ; 0 matches any size.
    """
    parameter = PREBATCH_SIZES[records.split]
    size = getattr(parameters, parameter)
    noted = spec.noted_prebatch_size(records.split)
    # The last record of a split may be smaller, so a single record matches any size.
    held = noted if noted is not None else records.first_record_rows if records.count > 1 else size
    if size and size != held:
        raise KfrecError(
            f"parameter {parameter}={size}, but a record of the {records.split} split in "
            f"{spec.folder} holds {held or 1}; leave it at 0, or convert the data again"
        )


def _trained_features(spec: FeatureSpec) -> tuple[str, ...]:
    """The targets, and the distinct features of the channels that models read."""
    listed = (name for channel, names in spec.channels.items() if channel != Channel.GROUP for name in names)
    return tuple(dict.fromkeys((*(target.name for target in spec.targets), *listed)))
