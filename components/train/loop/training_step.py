"""One optimizer step with the same result for any number of ranks.

The loss is the sum over terms of weight * total / count, with totals and counts over the global batch. Given the summed
counts, each rank differentiates its share of the loss, and one all-reduce of the shares' gradients gives the gradient
of the loss. The exchange of rows sums those of sharded tables.

Counts depend only on labels and masks, so a batch's counts are reduced together with the previous batch's gradients:
a step waits for one reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice, tee, zip_longest
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from components.models import LossTerm, Model
from components.models.draws import START, draws_at
from components.models.layers.global_batch import Batch, global_batch
from components.models.loss import sum_of
from components.models.model import loss_terms_of
from components.models.ops.choice import training_back_end
from components.models.ops.rows import dense_gradients, sum_by_row
from components.models.ops.scaling import Scaling
from components.models.optimizers.groups import Optimizers
from components.models.tables.placement import sharding_of
from components.tasks import Kept, Streaming
from components.train.loop.averages import Averages
from components.train.loop.exchange import Gradient, is_whole, sum_gradients, touched_rows
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Ranks
from components.train.loop.validation import kept_columns, padded, targets_of

Features = Mapping[str, tf.Tensor]


class _Filled(NamedTuple):
    """Padded features and targets.

    Attributes:
        counted: the mask of the samples among them, float32 [B]; None without padding.
        weights: how much each counts in the loss, 0 for padding, float32 [B]; None for all alike and without padding.
    """

    features: Features
    targets: Features
    counted: tf.Tensor | None
    weights: tf.Tensor | None


@dataclass(frozen=True)
class Inputs:
    """What a training step takes.

    Attributes:
        signature: of ``unpack``'s argument; by default the features and targets by name, [None] or [None, length].
        targets: the features of the channel ``label``, to their type in ``Model.loss_terms``.
        kept: the task's kept columns present in the data, to their features.
        rows: size to which this rank's batches are padded, with samples of weight 0; 0 for no padding.
        weight: the feature of how much each sample counts in the loss; empty for all alike.
        unpack: a transferred batch to its features and targets
            (``components.train.loop.transfer.Transfer.features``).
    """

    signature: Any
    targets: Mapping[str, tf.DType]
    kept: Mapping[Kept, str] = field(default_factory=dict)
    rows: int = 0
    unpack: Callable[[Any], dict[str, tf.Tensor]] = dict
    weight: str = ""


@dataclass(frozen=True)
class StepOptions:
    """How a training step computes.

    Attributes:
        xla: compile the forward and backward pass; reductions and updates stay outside.
        seed: of the model's random draws.
        micro: samples of a rank that are differentiated at a time; 0 for all of a batch.
        clip_norm: largest norm of all gradients together; 0 for no limit.
    """

    xla: bool = False
    fp16_allreduce: bool = False
    seed: int = 0
    micro: int = 0
    clip_norm: float = 0.0


class TrainingStep:
    """Computes the loss of a batch, differentiates, sums over the ranks and updates the model.

    Args:
        averages: of the model's trainable variables; None disables averaging.

    Attributes:
        run: trains on this rank's share of a global batch; returns the loss of the global batch, float32. Takes the
            batch's position too (``components.models.draws.draws_at``), by default that of a training's start.
        run_in_parts: as ``run``, but returns the loss and its parts, float32 ``[1 + parts]``.
        parts: names of the parts of the loss (``components.models.LossTerm.part``), set by the first step.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Optimizers,
        ranks: Ranks,
        metrics: Streaming,
        loss_scale: LossScale,
        inputs: Inputs,
        options: StepOptions = StepOptions(),
        averages: Averages | None = None,
    ) -> None:
        self._model, self._optimizer, self._ranks, self._seed = model, optimizer, ranks, options.seed
        self._metrics, self._loss_scale = metrics, loss_scale
        self._targets, self._kept, self._weight = inputs.targets, inputs.kept, inputs.weight
        self._averages = averages or Averages(model.trainable_variables, 0.0)
        self._variables = list(model.trainable_variables)
        self._are_parts = [sharding_of(variable) is not None for variable in self._variables]
        self._rows, self._unpack = inputs.rows, inputs.unpack
        self._xla, self._in_half = options.xla, options.fp16_allreduce
        self._micro, self._clip_norm = options.micro, options.clip_norm
        self._whole = self._chosen([None] * len(self._variables))
        compiled = {"jit_compile": True} if options.xla else {}
        self._differentiate = tf.function(self._loss_and_gradients, autograph=False, **compiled)
        self._counts = tf.function(self._term_counts, autograph=False, **compiled)
        counts, batch = tf.TensorSpec([None], tf.float32), [inputs.signature, tf.TensorSpec(START.shape, START.dtype)]
        self._count = tf.function(self._counts_of, input_signature=batch, autograph=False)
        self._run_ahead = tf.function(self._step, input_signature=[*batch, counts, counts], autograph=False)
        self.parts: tuple[str, ...] = ()
        self.run = tf.function(
            lambda inputs, position=START: self._step(inputs, position)[0][0], input_signature=batch, autograph=False
        )
        self.run_in_parts = tf.function(
            lambda inputs, position=START: self._step(inputs, position)[0], input_signature=batch, autograph=False
        )

    def choose_exchange(self, batch: Features) -> dict[str, str]:
        """Chooses how the ranks exchange each table's gradients; a collective operation before the first step.

        Args:
            batch: this rank's share of a global batch.

        Returns:
            Variable name to "whole" or "rows", for each table that is not sharded.
        """
        features, targets = self._split(batch)
        with draws_at(self._seed):
            touching = touched_rows(self._model, self._variables, features, targets)
        gathered = self._ranks.gather(touching)
        touched = [None if None in rows else max(rows) for rows in zip(*gathered, strict=True)]
        self._whole = self._chosen(touched, next(iter(features.values())).dtype.size)
        chosen = zip(self._variables, touched, self._whole, self._are_parts, strict=True)
        return {
            variable.name.removesuffix(":0"): "whole" if dense else "rows"
            for variable, rows, dense, is_part in chosen
            if rows is not None and not is_part
        }

    def _chosen(self, touched: Sequence[int | None], index_bytes: int = 4) -> list[bool]:
        keeps, ranks, value_bytes = self._optimizer.keeps_sparse, self._ranks.size, 2 if self._in_half else 4
        if self._micro:  # the sums of micro-batches are dense
            return [True] * len(self._variables)
        if ranks == 1:  # nothing is sent
            return [not sparse for sparse in keeps]
        each = zip(self._variables, keeps, touched, strict=True)
        return [is_whole(v.shape.as_list(), sparse, rows, ranks, index_bytes, value_bytes) for v, sparse, rows in each]

    def steps(self, batches: Iterable[Any], positions: Iterable[np.ndarray] | None = None) -> Iterator[tf.Tensor]:
        """Runs a step on each batch and yields the results of ``run_in_parts``; a collective operation.

        Requests the next batch before each step, whose reduction includes the next batch's counts.

        Args:
            batches: this rank's shares of global batches.
            positions: of each batch (``components.models.draws.draws_at``); None counts steps.
        """
        if positions is None:
            positions = (np.array([step, 0], START.dtype) for step in count())
        if self._ranks.size == 1 or any(self._are_parts):  # no reduction, or it overlaps the exchange of rows
            yield from map(self.run_in_parts, batches, positions)
            return
        counts: tf.Tensor | None = None
        current, later = tee(zip(batches, positions, strict=False))
        for (batch, position), following in zip_longest(current, islice(later, 1, None)):
            if counts is None:
                counts = self._summed(self._count(batch, position))
            ahead = tf.zeros_like(counts) if following is None else self._count(*following)
            losses, counts = self._run_ahead(batch, position, counts, ahead)
            yield losses

    def _counts_of(self, inputs: Any, position: tf.Tensor) -> tf.Tensor:
        """This rank's counts of the terms, [terms]; TensorFlow prunes the graph to little more than the masks."""
        return self._term_counts(self._filled(self._unpack(inputs)), position)

    def _step(
        self, inputs: Any, position: tf.Tensor, counts: tf.Tensor | None = None, following: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """Runs a step.

        Args:
            inputs: this rank's share of a global batch.
            counts: of the terms, over all ranks, [terms]; None computes them.
            following: this rank's counts of the next batch, [terms], if any.

        Returns:
            The losses, and the next batch's counts over all ranks.
        """
        batch = self._unpack(inputs)
        filled = self._filled(batch)
        # A compiled function cannot contain a reduction, and a micro-batch knows its own counts alone.
        if counts is None and (self._xla or self._micro):
            counts = self._summed(self._counts(filled, position))
        kept = kept_columns(batch, self._kept)
        if self._micro and counts is not None:
            losses, gradients = self._accumulated(filled, counts, position, kept)
        else:
            losses, outputs, gradients = self._differentiate(filled, counts, position)
        gradients = [_of(variable, gradient) for variable, gradient in zip(self._variables, gradients, strict=True)]
        with training_back_end():
            with tf.name_scope("exchange"):
                others = [losses] if following is None else [losses, following]
                gradients, summed = sum_gradients(
                    self._ranks, gradients, others, self._whole, self._are_parts, self._in_half
                )
            with tf.name_scope("loss_scale"):
                self._loss_scale.apply(gradients, partial(self._update, gradients), self._agreed)
        if not self._micro:
            with tf.name_scope("metrics"):
                rows = tf.shape(next(iter(batch.values())))[0]
                outputs = {name: values[:rows] for name, values in outputs.items()}
                self._metrics.update(self._split(batch)[1], outputs, kept)
        return summed

    def _accumulated(
        self, batch: _Filled, counts: tf.Tensor, position: tf.Tensor, kept: Features
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The losses and gradients of a batch, summed over its micro-batches, which also enter the metrics.

        The shares of the loss are those of the whole batch, since ``counts`` are. Gradients are dense: the slices of
        two micro-batches may have the same rows.
        """
        features, targets, counted, weights = batch
        rows, size = tf.shape(next(iter(features.values())))[0], self._micro
        samples = rows if counted is None else tf.cast(tf.reduce_sum(counted), tf.int32)

        def sum_up(first: tf.Tensor, losses: tf.Tensor, sums: list[tf.Tensor]) -> tuple[Any, ...]:
            def part(inputs: Features, end: tf.Tensor) -> Features:
                return {name: values[first:end] for name, values in inputs.items()}

            end = tf.minimum(first + size, rows)
            mask, own_weights = (None if each is None else each[first:end] for each in (counted, weights))
            at = position + tf.stack([0, first])
            micro = _Filled(part(features, end), part(targets, end), mask, own_weights)
            own, outputs, gradients = self._differentiate(micro, counts, at)
            here = tf.clip_by_value(samples - first, 0, end - first)
            self._metrics.update(
                part(targets, first + here),
                {name: values[:here] for name, values in outputs.items()},
                part(kept, first + here),
            )
            dense = [tf.convert_to_tensor(_of(v, g)) for v, g in zip(self._variables, gradients, strict=True)]
            return end, losses + own, [total + gradient for total, gradient in zip(sums, dense, strict=True)]

        with tf.name_scope("micro_batches"):
            # The first one outside of the loop, which then knows the number of parts of the loss.
            state = sum_up(tf.constant(0), tf.constant(0.0), [tf.zeros_like(variable) for variable in self._variables])
            _, losses, gradients = tf.while_loop(
                lambda first, losses, sums: first < rows, sum_up, state, parallel_iterations=1
            )
        return losses, gradients

    def _split(self, batch: Features) -> tuple[Features, Features]:
        """The features of a batch and its targets, in their types."""
        features = {name: values for name, values in batch.items() if name not in self._targets}
        return features, targets_of(batch, self._targets)

    def _filled(self, batch: Features) -> _Filled:
        full, counted = padded(batch, self._rows) if self._rows else (batch, None)
        weights = counted
        if self._weight:
            weights = full[self._weight] if counted is None else full[self._weight] * counted
        return _Filled(*self._split(full), counted, weights)

    def _terms(self, batch: _Filled, training: bool) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        rows = tf.shape(next(iter(batch.features.values())))[0]
        mask = tf.ones([rows], tf.bool) if batch.counted is None else batch.counted > 0
        return loss_terms_of(self._model, batch.features, batch.targets, mask, training)

    def _term_counts(self, batch: _Filled, position: tf.Tensor) -> tf.Tensor:
        with draws_at(self._seed, position), global_batch(Batch(counted=batch.counted, has_statistics=False)):
            return _counts(self._terms(batch, training=True)[1].values(), batch.weights)

    def _summed(self, counts: tf.Tensor) -> tf.Tensor:
        """Counts summed over the ranks, in a separate reduction."""
        (summed,) = self._ranks.sum([counts], name="counts")
        return summed

    def _batch(self, counted: tf.Tensor | None) -> Batch:
        """The global batch, as the model sees it."""
        if self._ranks.size == 1:
            return Batch(counted=counted, is_whole=not self._micro)

        def summing(values: tf.Tensor, name: str) -> tf.Tensor:
            (summed,) = self._ranks.sum([values], name=name)
            return summed

        return Batch(self._ranks.rank, summing, self._ranks.gather_rows, counted, not self._micro)

    def _loss_and_gradients(
        self, batch: _Filled, counts: tf.Tensor | None, position: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor], list[Gradient]]:
        """This rank's share of the loss and of its parts, its outputs, and the gradients of its share, scaled."""
        with (
            dense_gradients(v for v, dense in zip(self._variables, self._whole, strict=True) if dense),
            training_back_end(self._xla),
        ):
            drawn, counted = draws_at(self._seed, position), batch.counted
            with drawn, global_batch(self._batch(counted)), tf.GradientTape() as tape:
                outputs, terms = self._terms(batch, training=True)
                if counts is None:
                    counts = self._summed(_counts(terms.values(), batch.weights))
                shares = tf.math.divide_no_nan(1.0, counts)  # 0 for a count of 0
                weighted = tf.stack([term.weight * sum_of(term.total, batch.weights) for term in terms.values()])
                loss = tf.tensordot(shares, weighted, 1)
                scaled = loss * self._loss_scale.value
            gradients = tape.gradient(scaled, self._variables)
        named = [term.part or name for name, term in terms.items()]
        self.parts = tuple(dict.fromkeys(named))
        chosen = [tf.constant([each == part for each in named]) for part in self.parts]
        parts = [tf.tensordot(shares, tf.where(mine, weighted, 0.0), 1) for mine in chosen]
        return tf.stack([loss, *parts]), outputs, gradients

    def _agreed(self, finite: tf.Tensor) -> tf.Tensor:
        if not any(self._are_parts):
            return finite
        (others,) = self._ranks.sum([tf.cast(tf.logical_not(finite), tf.float32)], name="not_finite")
        return tf.equal(others, 0.0)

    def _update(self, gradients: Sequence[Gradient], scaling: Scaling) -> None:
        if self._clip_norm:
            scaling = scaling.clipped(self._norm(gradients), self._clip_norm)
        self._optimizer.apply(list(zip(gradients, self._variables, strict=True)), scaling)
        self._averages.update(self._variables)

    def _norm(self, gradients: Sequence[Gradient]) -> tf.Tensor:
        """The norm of the summed gradients of all variables, those of table shards included."""
        squares = [_squares(gradient) for gradient in gradients]
        mine = [each for each, is_part in zip(squares, self._are_parts, strict=True) if is_part]
        shared = [each for each, is_part in zip(squares, self._are_parts, strict=True) if not is_part]
        if mine:
            shared += self._ranks.sum([tf.add_n(mine)], name="norms_of_shards")
        return tf.sqrt(tf.add_n(shared))


def _squares(gradient: Gradient) -> tf.Tensor:
    """The sum of a gradient's squares; the slices of one row are one gradient."""
    values = sum_by_row(gradient)[1] if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.reduce_sum(tf.square(tf.cast(values, tf.float32)))


def _counts(terms: Iterable[LossTerm], weights: tf.Tensor | None) -> tf.Tensor:
    """This rank's counts of the terms, [terms]."""
    return tf.stack([tf.stop_gradient(sum_of(term.count, weights)) for term in terms])


def _of(variable: tf.Variable, gradient: Gradient) -> Gradient:
    """The gradient; restores the static shape of slices, which a tf.function drops."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values, gradient.indices, tf.constant(variable.shape.as_list(), tf.int32))
    return gradient
