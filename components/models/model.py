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
        variable: float32 ``[R, width]``, which may hold tables of other features too.
        begin: the row of id 0.
        rows: the largest id, and 1.
        feature: whose ids; empty where the table goes by the feature's name.
    """

    variable: tf.Variable
    begin: int
    rows: int
    feature: str = ""


class Model(Protocol):
    """What the trainer, the evaluation and the export know of a model.

    Every model is a ``tf.Module``: its variables exist as soon as it is built.

    Attributes:
        serving_features: names of the features that :meth:`logits` reads.
        tables: embedding tables, which a warm start translates and ranks may share; a feature's first table goes by the
            name of the feature.
        trainable_variables: what an optimizer updates, in an order that never changes.
        variables: all of them, the same.
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
            features: integer ids by feature name, ``[B]`` or ``[B, length]``; B may be 0. An id outside 0..cardinality
                reads as 0, the padding.
            training: whether dropout is on.

        Returns:
            float32 ``[B]``, which the task judges and turns into what is served.
        """

    def loss_terms(
        self, features: Mapping[str, tf.Tensor], labels: tf.Tensor, training: bool = True
    ) -> tuple[tf.Tensor, dict[str, LossTerm]]:
        """Scores samples and adds up their losses.

        Args:
            features: as for :meth:`logits`, with the negative history where the model learns from one.
            labels: float32 ``[B]``, the feature of the channel label.
            training: whether dropout is on.

        Returns:
            The logits, float32 ``[B]``, and the terms of the loss by name.
        """


@runtime_checkable
class Searching(Protocol):
    """A model that searches a history for what fits the target, and can say what it found.

    The export then has a signature for it beside the one that scores, and the evaluation's report shows examples.
    """

    def searched(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """What the search finds in the positive history of each sample.

        Args:
            features: as for :meth:`Model.logits`.

        Returns:
            float32 ``[B, length]``, an entry for each position of the positive history: the weight by which an item was
            found, above 0; 0 of an item that was searched and not found; -1 of padding and items that are not searched.
        """
