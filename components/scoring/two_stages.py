"""Two stages: a cheap model retrieves some candidates out of all, a dear one ranks them.

Either stage errs where the other one knows, so a weighed order takes both scores s1 and s2, and the counts c of items:

    p(i | u) = exp(w . f(u, i)) / sum over the retrieved j of exp(w . f(u, j))    with f = (s1, s2, ln c)

``components.scoring.weighing`` fits the weights w.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import tee
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError
from components.scoring.catalogue import LIKELIHOOD, Catalogue

_NOWHERE = -1


class Weights(NamedTuple):
    """Of what retrieved candidates are ordered by; the default is the order of the second stage.

    Attributes:
        first: of the first stage's score.
        second: of the second one's.
        popularity: of the logarithm of the item's count.
    """

    first: float = 0.0
    second: float = 1.0
    popularity: float = 0.0


SECOND = Weights()


class _Users(NamedTuple):
    """Users as both models read them.

    Attributes:
        retrieval: inputs of the first model.
        ranking: inputs of the second one.
        seen: items of each user that are not listed, ``[n]``.
    """

    retrieval: Mapping[str, np.ndarray]
    ranking: Mapping[str, np.ndarray]
    seen: np.ndarray


class TwoStages(Catalogue):
    """A catalogue of which only the retrieved candidates are ranked; used as a ``Catalogue``.

    Likelihoods are among the retrieved candidates. Items of a history are in its list if both models were judged so.

    Args:
        retrieval: candidates of the first model.
        ranking: candidates of the second one; what it does not have is not retrieved.
        retrieved: candidates to retrieve for a user, those of the history aside.
        weights: of the order.

    Raises:
        KfrecError: the models have no item in common.
    """

    def __init__(self, retrieval: Catalogue, ranking: Catalogue, retrieved: int, weights: Weights = SECOND) -> None:
        vars(self).update(vars(ranking))
        self._retrieval, self._ranking, self._retrieved = retrieval, ranking, retrieved
        self._weights = np.array(weights)
        self.keeps_seen = retrieval.keeps_seen and ranking.keeps_seen
        places = pc.index_in(retrieval.names, value_set=ranking.names)
        self._place_of = pc.fill_null(places, _NOWHERE).to_numpy(zero_copy_only=False)
        if not (self._place_of != _NOWHERE).any():
            raise KfrecError(
                f"none of the {len(retrieval.names):,} items of the retrieval model is one of the "
                f"{len(ranking.names):,} of the ranking model; name models of the same items"
            )
        counts = np.ones(len(self.names)) if self.counts is None else self.counts
        self._log_counts = np.log(np.maximum(counts, 0.5))
        if weights != SECOND:
            self.value, self.note = LIKELIHOOD, ""

    @property
    def scores_pairs(self) -> bool:
        """As of ``Catalogue``, of the first stage."""
        return self._retrieval.scores_pairs

    def encoded(  # type: ignore[override]
        self,
        users: pa.Array,
        histories: pa.Array,
        excluded: np.ndarray | int = 0,
        context: Mapping[str, pa.Array] | None = None,
    ) -> tuple[_Users, np.ndarray]:
        """As of ``Catalogue``; unknown ids are the second model's."""
        first, _ = self._retrieval.encoded(users, histories, context=context)
        second, unknown = self._ranking.encoded(users, histories, context=context)
        seen = pc.fill_null(pc.list_value_length(histories), 0).to_numpy()
        return _Users(first, second, seen + excluded), unknown

    def retrieved(self, users: _Users, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The retrieved candidates of each user.

        Yields:
            Their places, int64 ``[n]``, and what ``Weights`` weigh, float64 ``[n, 3]``.
        """
        found, scored = tee(self._found(users, count))
        second = self._ranking.scores_of(users.ranking, (places for places, _ in scored))
        for (places, first), values in zip(found, second, strict=True):
            yield places, np.stack([first, values, self._log_counts[places]], axis=1)

    def _of_known(self, users: _Users, count: int) -> Iterator[np.ndarray]:  # type: ignore[override]
        """As of ``Catalogue``, -inf for candidates that are not retrieved."""
        for places, told in self.retrieved(users, count):
            scores = np.full((1, len(self.names)), -np.inf)
            scores[0, places] = told @ self._weights
            yield scores

    def _found(self, users: _Users, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The places in the second catalogue of each user's retrieved candidates, and their scores in the first."""
        nothing = np.zeros(0, np.int64)
        for user, scores in enumerate(self._retrieval.scores(users.retrieval, count)):
            boost = self._retrieval.log_boost
            boosted = scores if boost is None else scores + boost
            best = self._retrieval.best(boosted, nothing, self._retrieved + int(users.seen[user]))
            best = best[self._place_of[best] != _NOWHERE]
            best = best[np.argsort(self._place_of[best])]
            yield self._place_of[best], scores[best]
