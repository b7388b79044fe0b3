"""Search results of a model in the histories of a few test samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.values import names_of
from components.scoring.model import ExportedModel
from components.scoring.newest import choice_label, is_chosen
from components.scoring.split import translated

# Searched samples: enough for two digits of the shares, and fewer than an evaluation batch.
SAMPLES = 1024
_EXAMPLES, _ITEMS = 3, 8


@dataclass(frozen=True)
class FoundItem:
    """An item that the search found.

    Attributes:
        item: its id in the data.
        category: name, or id without a name; empty if items have no category.
        ago: distance to the candidate, 1 for the newest item.
        weight: of the search.
    """

    item: int
    category: str
    ago: int
    weight: float


@dataclass(frozen=True)
class Example:
    """A clicked sample.

    Attributes:
        user: id in the data, None without users.
        item: the candidate's id.
        category: of the candidate, as in :class:`FoundItem`.
        searched: number of searched items.
        found: number of found items.
        best: found items of largest weight, descending.
    """

    user: int | None
    item: int
    category: str
    searched: int
    found: int
    best: tuple[FoundItem, ...]


@dataclass(frozen=True)
class Searched:
    """Search results.

    Attributes:
        samples: number of clicked samples with a searchable history, among the first SAMPLES of the split.
        examples: those with the longest histories, of distinct users.
        alike: share of the searched items in the candidate's category, mean over the samples; None if items have no
            category.
        alike_weight: the same share of the found items' weight.
    """

    samples: int
    examples: tuple[Example, ...]
    alike: float | None = None
    alike_weight: float | None = None


def search_examples(spec: FeatureSpec, model: ExportedModel, lookups: Mapping[str, np.ndarray]) -> Searched | None:
    """Searches the first samples of the test split; None if the model does not search, or no history is searchable.

    Args:
        spec: the data.
        model: the model.
        lookups: as for :func:`components.scoring.split.score_split`.
    """
    from components.records import Records  # with Numba, as in score_split

    channels = [spec.channels.get(name, ()) for name in (Channel.USER, Channel.TARGET, Channel.POSITIVE)]
    if model.search is None or not all(channels[1:]):
        return None
    label = choice_label(spec)
    wanted = dict.fromkeys(
        (*filter(None, [label]), *model.inputs, *(name for channel in channels for name in channel[:2]))
    )
    batch = next(Records(spec, "test", features=list(wanted)).batches(SAMPLES))
    weights = model.searched(translated({name: batch[name] for name in model.inputs}, lookups))
    assert weights is not None
    rows = np.flatnonzero(is_chosen(label, batch, len(weights)) & (weights > 0).any(1))
    if not len(rows):
        return None
    return _Reading(spec, batch, weights, *channels).summary(rows)


class _Reading:
    """The searched samples; the first feature of an item is its id, the second its category."""

    def __init__(
        self,
        spec: FeatureSpec,
        batch: Mapping[str, np.ndarray],
        weights: np.ndarray,
        user: Sequence[str],
        target: Sequence[str],
        history: Sequence[str],
    ) -> None:
        self._weights = weights
        self._users = batch[user[0]] if user else None
        self._candidates, self._items = batch[target[0]], batch[history[0]]
        self._categories = (batch[target[1]], batch[history[1]]) if min(len(target), len(history)) > 1 else None
        self._names: dict[int, str] = {}
        if self._categories is not None:
            ids = np.union1d(*(each.ravel() for each in self._categories))
            self._names = names_of(spec, target[1], ids)

    def summary(self, rows: np.ndarray) -> Searched:
        """The search results in these samples."""
        counts = (self._weights[rows] >= 0).sum(1)
        longest = rows[np.argsort(-counts, kind="stable")]
        if self._users is not None:
            longest = longest[np.sort(np.unique(self._users[longest], return_index=True)[1])]
        examples = tuple(self._example(int(row)) for row in longest[:_EXAMPLES])
        return Searched(len(rows), examples, *self._alike(rows))

    def _example(self, row: int) -> Example:
        weights = self._weights[row]
        best = np.argsort(-weights, kind="stable")[:_ITEMS]
        of_history = None if self._categories is None else self._categories[1][row]
        items = tuple(
            FoundItem(
                int(self._items[row, index]),
                "" if of_history is None else self._name(of_history[index]),
                len(weights) - int(index),
                float(weights[index]),
            )
            for index in best
            if weights[index] > 0
        )
        return Example(
            None if self._users is None else int(self._users[row]),
            int(self._candidates[row]),
            "" if self._categories is None else self._name(self._categories[0][row]),
            int((weights >= 0).sum()),
            int((weights > 0).sum()),
            items,
        )

    def _name(self, category: int) -> str:
        return self._names.get(int(category), f"id {category}")

    def _alike(self, rows: np.ndarray) -> tuple[float | None, float | None]:
        if self._categories is None:
            return None, None
        candidates, histories = self._categories
        weights, alike = self._weights[rows], histories[rows] == candidates[rows, np.newaxis]
        searched, weighted = weights >= 0, np.maximum(weights, 0)
        share = (searched & alike).sum(1) / searched.sum(1)
        return float(share.mean()), float(((weighted * alike).sum(1) / weighted.sum(1)).mean())
