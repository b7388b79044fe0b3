"""Vectors of items that tell more than their ids."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from components.feature_spec import Feature
from components.models.draws import draws_of_step
from components.models.layers.dropout import Dropout
from components.models.layers.token_embeddings import look_up_dense
from components.models.layers.transformer import initial_kernel
from components.models.layers.weights import Weights
from components.models.model import Table
from components.models.ops.dense import project


class ItemFeatures(tf.Module):
    """Adds what is known of an item to the embedding of its id: the embedding of its category k(i), and a linear
    function of the vector x_i of its columns.

        v_i = m_i e_i + c_k(i) + x_i P

    In a step of the training ``m_i`` is 0 for a random share of the items, the same ones wherever they occur in its
    samples, so that the rest is learned to stand for an item alone; else it is 1. An item that has no id has
    ``v = c_k + x P``.

    Args:
        category: the feature that tells the category of an item, with its largest id.
        of_items: the category of each id, integers ``[rows]``.
        width: floats of an embedding.
        id_dropout: share of the items that a step knows by the rest alone.
        vectors: of the columns of each id, float32 ``[rows, inputs]``; None if the data have no columns of items.

    Attributes:
        tables: feature name to the rows that embed its ids.
        inputs: floats of a vector of columns, 0 without.

    Examples:
        >>> category = Feature("cat", "int64", cardinality=3)
        >>> layer = ItemFeatures(Weights(1), category, np.array([0, 1, 3, 3]), 16, 0.1)
        >>> layer(tf.zeros([8, 10, 16]), tf.ones([8, 10], tf.int32)).shape
        TensorShape([8, 10, 16])

    References:
        Dropout of what choices tell of an item as in Volkovs et al., DropoutNet, NeurIPS 2017; sums of the embeddings
        of its features as in Kula, LightFM, https://arxiv.org/abs/1507.08439.
    """

    def __init__(
        self,
        weights: Weights,
        category: Feature,
        of_items: np.ndarray,
        width: int,
        id_dropout: float,
        vectors: np.ndarray | None = None,
    ) -> None:
        super().__init__()
        rows = (category.cardinality or 0) + 1
        self.embeddings = initial_kernel(weights, "categories", (rows, width))
        self.tables = {category.name: Table(self.embeddings, 0, rows)}
        self.dropout = Dropout(weights.scope("ids"), id_dropout)
        # A GPU gathers rows of int64, and not of int32.
        self._of_items = tf.constant(of_items, tf.int64)
        self.inputs = 0 if vectors is None else vectors.shape[1]
        if vectors is not None:
            self._vectors = tf.constant(vectors)
            self.kernel = initial_kernel(weights.scope("columns"), "kernel", (self.inputs, width))

    def __call__(self, of_ids: tf.Tensor, ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The vectors of items.

        Args:
            of_ids: embeddings of the ids, float32 ``[..., width]``.
            ids: integers ``[...]``.
        """
        if training:
            with draws_of_step():
                is_there = self.dropout(tf.ones(self._of_items.shape), training) > 0
            of_ids = tf.where(tf.gather(is_there, ids)[..., tf.newaxis], of_ids, tf.zeros_like(of_ids))
        vectors = of_ids + look_up_dense(self.embeddings, tf.gather(self._of_items, ids))
        return vectors + self.of_known(ids) if self.inputs else vectors

    def of_category(self, categories: tf.Tensor) -> tf.Tensor:
        """What items of these categories have in common, float32 ``[B, width]``.

        Args:
            categories: integers ``[B]``; ids outside 0..cardinality are treated as 0.
        """
        known = (categories >= 0) & (categories < self.embeddings.shape[0])
        return tf.gather(self.embeddings, tf.where(known, categories, tf.zeros_like(categories)))

    def of_known(self, ids: tf.Tensor) -> tf.Tensor:
        """What the columns of items with an id add, float32 ``[..., width]``; 0 for ids that stand for no item."""
        return self.of_columns(tf.gather(self._vectors, ids))

    def of_columns(self, vectors: tf.Tensor) -> tf.Tensor:
        """What vectors of columns add, float32 ``[..., width]``, from float32 ``[..., inputs]``."""
        return project(vectors, self.kernel)
