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


class ItemCategories(tf.Module):
    """Adds the embedding of an item's category k(i) to that of its id.

        v_i = m_i e_i + c_k(i)

    In a step of the training ``m_i`` is 0 for a random share of the items, the same ones wherever they occur in its
    samples, so that c_k is learned to stand for an item alone; else it is 1. An item that has no id has ``v = c_k``.

    Args:
        category: the feature that tells the category of an item, with its largest id.
        of_items: the category of each id, integers ``[rows]``.
        width: floats of an embedding.
        id_dropout: share of the items that a step knows by their category alone.

    Attributes:
        tables: feature name to the rows that embed its ids.

    Examples:
        >>> category = Feature("cat", "int64", cardinality=3)
        >>> layer = ItemCategories(Weights(1), category, np.array([0, 1, 3, 3]), 16, 0.1)
        >>> layer(tf.zeros([8, 10, 16]), tf.ones([8, 10], tf.int32)).shape
        TensorShape([8, 10, 16])

    References:
        Dropout of what choices tell of an item as in Volkovs et al., DropoutNet, NeurIPS 2017; sums of the embeddings
        of its features as in Kula, LightFM, https://arxiv.org/abs/1507.08439.
    """

    def __init__(
        self, weights: Weights, category: Feature, of_items: np.ndarray, width: int, id_dropout: float
    ) -> None:
        super().__init__()
        rows = (category.cardinality or 0) + 1
        self.embeddings = initial_kernel(weights, "categories", (rows, width))
        self.tables = {category.name: Table(self.embeddings, 0, rows)}
        self.dropout = Dropout(weights.scope("ids"), id_dropout)
        # A GPU gathers rows of int64, and not of int32.
        self._of_items = tf.constant(of_items, tf.int64)

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
        return of_ids + look_up_dense(self.embeddings, tf.gather(self._of_items, ids))

    def of_category(self, categories: tf.Tensor) -> tf.Tensor:
        """What items of these categories have in common, float32 ``[B, width]``.

        Args:
            categories: integers ``[B]``; ids outside 0..cardinality are treated as 0.
        """
        known = (categories >= 0) & (categories < self.embeddings.shape[0])
        return tf.gather(self.embeddings, tf.where(known, categories, tf.zeros_like(categories)))
