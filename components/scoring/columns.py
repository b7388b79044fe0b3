"""Collects a task's kept columns batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.values import names_of, read_trained
from components.scoring.newest import choice_label, events_of, is_chosen
from components.tasks import Kept, histories_of, kept_features, lists_of
from components.tasks.kept import oldest_two, told_apart


class KeptColumns:
    def __init__(self, spec: FeatureSpec, keep: Sequence[Kept]) -> None:
        self._spec, self._columns = spec, kept_features(spec, keep)
        self._parts: dict[Kept, list[np.ndarray]] = {column: [] for column in self._columns}
        self._occurrences = {
            column: _Occurrences(lists_of(spec, column), spec.features[feature].cardinality or 0)
            for column, feature in self._columns.items()
            if column.occurring_in
        }
        self._keys: dict[Kept, list[np.ndarray]] = {
            column: [] for column in self._columns if histories_of(spec, column)
        }
        self._label, self._target = choice_label(spec), next(iter(spec.channels.get(Channel.TARGET, ())), "")
        keys = [histories_of(spec, column) for column in self._keys]
        keys += filter(None, (self._label, self._target)) if keys else ()
        self.features = (*self._columns.values(), *(each.lists for each in self._occurrences.values()), *keys)

    def add(self, batch: Mapping[str, np.ndarray]) -> None:
        """Adds a batch with these features."""
        for column, feature in self._columns.items():
            values = batch[feature]
            self._parts[column].append(np.count_nonzero(values, axis=1).astype(np.int32) if column.counted else values)
        for counts in self._occurrences.values():
            counts.add(batch[counts.lists])
        for column, keys in self._keys.items():
            keys.append(oldest_two(self._events(batch, batch[histories_of(self._spec, column)])))

    def _events(self, batch: Mapping[str, np.ndarray], histories: np.ndarray) -> np.ndarray:
        """The histories with the targets that were chosen."""
        if not self._target:
            return histories
        return events_of(histories, batch[self._target], is_chosen(self._label, batch, len(histories)))

    def newest_count(self) -> np.ndarray | None:
        """The first counted column of the last batch; None if there is none."""
        return next((parts[-1] for column, parts in self._parts.items() if column.counted), None)

    def arrays(self) -> dict[str, np.ndarray]:
        """The complete columns, by name."""
        arrays = {column: np.concatenate(parts) for column, parts in self._parts.items()}
        for column, keys in self._keys.items():
            vocabulary = self._spec.vocabulary_of(self._columns[column])
            assert vocabulary is not None, "histories_of requires it"
            arrays[column] = told_apart(arrays[column], vocabulary.unknown, np.concatenate(keys))
        return {
            column.name: self._trained(column, values)
            if column.trained
            else self._occurrences[column].of(values)
            if column in self._occurrences
            else values
            for column, values in arrays.items()
        }

    def _trained(self, column: Kept, ids: np.ndarray) -> np.ndarray:
        vocabulary = self._spec.vocabulary_of(self._columns[column])
        assert vocabulary is not None, "kept_features requires it"
        counts = read_trained(self._spec, vocabulary)
        return np.ceil(np.where(ids < len(counts), counts[np.minimum(ids, len(counts) - 1)], 0)).astype(np.int64)

    def names(self, columns: Mapping[str, np.ndarray]) -> dict[str, dict[int, str]]:
        """The values of the named columns' ids.

        Args:
            columns: result of ``arrays``.

        Raises:
            KfrecError: a vocabulary is missing or damaged.
        """
        return {
            column.name: names_of(self._spec, feature, np.unique(columns[column.name]))
            for column, feature in self._columns.items()
            if column.named
        }


class _Occurrences:
    """Frequencies of ids in lists; ids outside 1..largest are padding, with frequency 0."""

    def __init__(self, lists: str, largest: int) -> None:
        self.lists, self._largest = lists, largest
        self._counts = np.zeros(largest + 2, np.int64)

    def add(self, ids: np.ndarray) -> None:
        self._counts += np.bincount(self._within(ids).ravel(), minlength=len(self._counts))

    def of(self, ids: np.ndarray) -> np.ndarray:
        counts = self._counts.copy()
        counts[[0, -1]] = 0
        return counts[self._within(ids)]

    def _within(self, ids: np.ndarray) -> np.ndarray:
        return np.clip(ids, 0, self._largest + 1)
