"""A mixture of SASRec, which generalises, and of item-kNN, which remembers pairs of items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from components.contract import LOG_LIKELIHOOD
from components.feature_spec import FeatureSpec
from components.models.item_knn.model import ItemKnn
from components.models.loss import LossTerm
from components.models.sasrec.model import NEXT_ITEM, SasRec
from components.models.sasrec_knn import SasRecKnnParameters

NEIGHBOURS = "neighbours"


class SasRecKnn(tf.Module):
    """The likelihood of the next item by both models.

        p(j | history) = (1 - s) p_sasrec(j | history) + s p_knn(j | history)

    Each learns by its own loss, as it does alone.

    Args:
        amp: whether SASRec computes in float16.

    References:
        Khandelwal et al., Generalization through memorization, https://arxiv.org/abs/1911.00172, mixes the next token's
        likelihoods of a transformer and of the neighbours of its context.
    """

    def __init__(self, parameters: SasRecKnnParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        self.sasrec = SasRec(parameters, spec, seed, amp)
        self.knn = ItemKnn(parameters, spec, seed)
        self.serving_features = self.sasrec.serving_features
        self.target_inputs = self.sasrec.target_inputs
        self.tables, self.item_columns = self.sasrec.tables, self.sasrec.item_columns
        self._of_sasrec, self._of_knn = math.log1p(-parameters.knn_share), math.log(parameters.knn_share)

    def count(self, samples: Iterable[Mapping[str, np.ndarray]]) -> Sequence[np.ndarray]:
        return self.knn.count(samples)

    def fit(self, counts: Sequence[np.ndarray]) -> None:
        self.knn.fit(counts)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return self.knn.ranked(features, self.item_scores(features))

    def item_scores(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return self._mixed(tf.nn.log_softmax(self.sasrec.item_logits(features)), self.knn.item_scores(features))

    def new_scores(self, features: Mapping[str, tf.Tensor], columns: tf.Tensor) -> tf.Tensor:
        """By SASRec alone: an item that nobody has chosen is no neighbour."""
        vectors = self.sasrec.target_vectors(features) + self.sasrec.column_vectors(columns)
        logits = tf.matmul(self.sasrec.user_vectors(features), vectors, transpose_b=True)
        of_known = tf.reduce_logsumexp(self.sasrec.item_logits(features), 1, keepdims=True)
        return logits - of_known + self._of_sasrec

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        by_sasrec, terms = self.sasrec.loss_terms(features, targets, mask, training)
        by_knn, counted = self.knn.loss_terms(features, targets, mask, training)
        likelihood = self._mixed(by_sasrec[LOG_LIKELIHOOD], by_knn[LOG_LIKELIHOOD])
        return {LOG_LIKELIHOOD: likelihood}, {**terms, NEIGHBOURS: counted[NEXT_ITEM]}

    def _mixed(self, by_sasrec: tf.Tensor, by_knn: tf.Tensor) -> tf.Tensor:
        """The logarithm of the mixture of two likelihoods, by their logarithms."""
        return tf.reduce_logsumexp(tf.stack([by_sasrec + self._of_sasrec, by_knn + self._of_knn]), 0)
