"""Two stages: a cheap model retrieves some candidates out of all, a dear one ranks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import tee
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError
from components.scoring.catalogue import Catalogue

_NOWHERE = -1


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

    Raises:
        KfrecError: the models have no item in common.
    """

    def __init__(self, retrieval: Catalogue, ranking: Catalogue, retrieved: int) -> None:
        vars(self).update(vars(ranking))
        self._retrieval, self._ranking, self._retrieved = retrieval, ranking, retrieved
        self.keeps_seen = retrieval.keeps_seen and ranking.keeps_seen
        places = pc.index_in(retrieval.names, value_set=ranking.names)
        self._place_of = pc.fill_null(places, _NOWHERE).to_numpy(zero_copy_only=False)
        if not (self._place_of != _NOWHERE).any():
            raise KfrecError(
                f"none of the {len(retrieval.names):,} items of the retrieval model is one of the "
                f"{len(ranking.names):,} of the ranking model; name models of the same items"
            )

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

    def _of_known(self, users: _Users, count: int) -> Iterator[np.ndarray]:  # type: ignore[override]
        """As of ``Catalogue``, -inf for candidates that are not retrieved."""
        chosen, scored = tee(self._chosen(users, count))
        for places, values in zip(chosen, self._ranking.scores_of(users.ranking, scored), strict=True):
            scores = np.full((1, len(self.names)), -np.inf)
            scores[0, places] = values
            yield scores

    def _chosen(self, users: _Users, count: int) -> Iterator[np.ndarray]:
        """The places in the second catalogue of each user's retrieved candidates."""
        nothing = np.zeros(0, np.int64)
        for user, scores in enumerate(self._retrieval.scores(users.retrieval, count)):
            if self._retrieval.log_boost is not None:
                scores += self._retrieval.log_boost
            best = self._retrieval.best(scores, nothing, self._retrieved + int(users.seen[user]))
            places = self._place_of[best]
            yield np.sort(places[places != _NOWHERE])
