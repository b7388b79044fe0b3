"""The interface of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from components.models.loss import LossTerm

if TYPE_CHECKING:
    import tensorflow as tf


class Table(NamedTuple):
    """The rows of a variable that embed the ids of one feature.

    Attributes:
        variable: float32 ``[R, width]``, possibly shared with tables of other features.
        begin: the row of id 0.
        rows: number of rows, the largest id + 1.
        feature: name of the feature; empty if it is the table's name.
    """

    variable: tf.Variable
    begin: int
    rows: int
    feature: str = ""


class Model(Protocol):
    """The interface of a model to training, evaluation and export.

    Every model is a ``tf.Module`` whose variables exist once it is built.

    Attributes:
        serving_features: names of the features that :meth:`logits` reads.
        tables: embedding tables, which warm starts translate and ranks may shard; the key of a feature's first table is
            the feature's name.
        trainable_variables: updated by optimizers, in a fixed order.
        variables: all variables, in a fixed order.
    """

    serving_features: tuple[str, ...]
    tables: Mapping[str, Table]

    @property
    def variables(self) -> Sequence[tf.Variable]: ...

    @property
    def trainable_variables(self) -> Sequence[tf.Variable]: ...

    def logits(self, features: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Scores samples.

        Args:
            features: integer ids by feature name, ``[B]`` or ``[B, length]``; B may be 0. Ids outside 0..cardinality
                are treated as 0, the padding.
            training: whether dropout is on.

        Returns:
            float32 ``[B]``, which the task evaluates and converts to the served output.
        """

    def loss_terms(
        self, features: Mapping[str, tf.Tensor], labels: tf.Tensor, training: bool = True
    ) -> tuple[tf.Tensor, dict[str, LossTerm]]:
        """Scores samples and computes their losses.

        Args:
            features: as for :meth:`logits`, plus the negative history if the model uses one.
            labels: float32 ``[B]``, the label feature.
            training: whether dropout is on.

        Returns:
            The logits, float32 ``[B]``, and the terms of the loss by name.
        """


@runtime_checkable
class Searching(Protocol):
    """A model that searches a history for items related to the target, and can return them.

    The export adds a signature for the search, and the evaluation's report shows examples.
    """

    def searched(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The search result for each sample's positive history.

        Args:
            features: as for :meth:`Model.logits`.

        Returns:
            float32 ``[B, length]``, per position of the positive history: the weight of a found item, above 0; 0 for an
            item not found; -1 for padding and items outside the searched part.
        """


@runtime_checkable
class SharingUser(Protocol):
    """A model whose :meth:`Model.logits` also scores many targets of one user, computing what does not depend on the
    target once: all features but the target's are then ``[1]`` or ``[1, length]``, with a static batch of 1.

    The export adds a signature for it, with which a catalogue is ranked.

    Attributes:
        target_features: names of the target's features, ``[B]``.
    """

    target_features: tuple[str, ...]
