"""The report's section about SIM's search: what it finds in the histories of a few test samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.values import names_of
from components.models.definition import Explained
from components.report.charts import table
from components.report.elements import Figure, Section

# Name of the weights among the tensors of the explanation.
WEIGHTS = "search"
_EXAMPLES, _ITEMS = 3, 8


@dataclass(frozen=True)
class FoundItem:
    """An item that the search found.

    Attributes:
        category: name, or id without a name; empty if items have no category.
        ago: distance to the candidate, 1 for the newest item.
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
        category: of the candidate, as in ``FoundItem``.
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
        examples: those with the longest histories, of distinct users.
        alike: share of the searched items in the candidate's category, mean over the samples; None if items have no
            category.
        alike_weight: the same share of the found items' weight.
    """

    samples: int
    examples: tuple[Example, ...]
    alike: float | None = None
    alike_weight: float | None = None


def sections(explained: Explained) -> list[Section]:
    """The section of the report about what the search found; none if no history is searchable."""
    searched = search_examples(explained)
    return [_section(searched)] if searched else []


def search_examples(explained: Explained) -> Searched | None:
    """Reads the weights of ``components.models.sim.model.Sim.explain``; None if no history is searchable."""
    spec, batch = explained.spec, explained.samples
    channels = [spec.channels.get(name, ()) for name in (Channel.USER, Channel.TARGET, Channel.POSITIVE)]
    if not all(channels[1:]):
        return None
    weights = explained.values[WEIGHTS].astype(np.float32)
    rows = np.flatnonzero(explained.chosen & (weights > 0).any(1))
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


def _section(searched: Searched) -> Section:
    """Shows ids of the records and of predictions.parquet; the report has no names of users or items."""
    text = (
        f"What the search over histories finds, in {searched.samples:,} clicked test samples; those with the longest "
        "histories are below. The weight is the attention by which an item was found. Users and items are shown by "
        "their ids in the data."
    )
    if searched.alike is not None:
        text += (
            f" On average {searched.alike:.0%} of a searched history are of the candidate's category, and "
            f"{searched.alike_weight:.0%} of the weight falls on them."
        )
    return Section("What the search found", text, [_figure(example) for example in searched.examples])


def _figure(example: Example) -> Figure:
    of = f", {example.category}" if example.category else ""
    who = "" if example.user is None else f"User {example.user}, "
    header = ("item", "category", "items ago", "weight") if example.category else ("item", "items ago", "weight")
    rows = [
        (str(each.item), *([each.category] if example.category else []), str(each.ago), f"{each.weight:.3f}")
        for each in example.best
    ]
    shown = sum(each.weight for each in example.best)
    note = (
        f"{example.found} of {example.searched} searched items were found; the attention of these {len(rows)} is "
        f"{shown:.0%} of that over all searched items."
    )
    return Figure(f"{who}candidate {example.item}{of}", table(header, rows), note)
