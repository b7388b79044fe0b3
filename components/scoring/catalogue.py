"""Ranks a catalogue for users: the one definition behind recommend, the served model and the evaluation's hit rates.

With sampled negatives a model learns the log-odds ``s(u, i) = ln p(i | u) - ln q(i)``, q being the distribution of the
draws (see ``components.datasets.raw_rows.SampledNegatives``). Adding ``ln q(i)`` gives what is likely:

    p(i | u) = exp(s(u, i) + ln q(i)) / sum over the candidates j of exp(s(u, j) + ln q(j))

with ``q(i)`` proportional to the count of i, and to half the smallest count for a candidate that is never drawn. The
score of such a candidate is not trained, so it never ranks before the others.

Source: Yi et al., "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations", 2019
(the correction); Bengio and Senecal, "Adaptive Importance Sampling", 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.contract import LOG_LIKELIHOOD, LOGIT, LONGEST_LIST, PROBABILITY, RANKED_BY, ranked_by
from components.datasets.event_lists import items_of, newest_of, values_of
from components.datasets.raw_rows import (
    BESIDE,
    CANDIDATE,
    CONTEXT,
    HISTORY,
    USER,
    Categorized,
    Encoded,
    NamedCategories,
    RawColumn,
    SampledNegatives,
)
from components.errors import KfrecError
from components.feature_spec import Channel
from components.feature_spec.event_columns import EventColumn
from components.feature_spec.lookup import IdLookup
from components.scoring.model import (
    COLUMN_VECTORS,
    COLUMNS,
    ITEM_SCORES,
    NEW_SCORES,
    TARGET_VECTORS,
    USER_VECTORS,
    cores,
    part_size,
)
from components.scoring.newcomers import NewByVector, Newcomers, Popularity
from components.scoring.ranking import best_of
from components.scoring.raw import RawModel
from components.scoring.split import behind

# What a candidate's value is, and the name of its column.
LIKELIHOOD, LIFT = "likelihood", "lift"
# Flags of candidates whose score is not trained.
UNKNOWN_ITEM, UNSEEN = "unknown", "unseen"
# Flag of candidates that appeared since the training, listed by what is known of their category.
NEW_ITEM = "new"
# Flag of a list that is of popular items, because no item of the history was in the training data.
POPULAR = "popular"
# Scores in memory at a time, unless one user has more candidates.
_BLOCK = 1 << 16
# The same for dot products, which need no copies of features.
_PRODUCTS = 1 << 24
_SMALLEST, _LARGEST = 1e-45, 1 - 2.0**-25  # probabilities that float32 tells from 0 and 1

_EMPTY = {
    BESIDE: pa.array([[]], pa.list_(pa.string())),
    CONTEXT: pa.array([None], pa.string()),
    USER: pa.array([""], pa.string()),
    HISTORY: pa.array([[]], pa.list_(pa.string())),
    CANDIDATE: pa.array([""], pa.string()),
}


class _Part(NamedTuple):
    """Users times candidates that a thread scores at a time."""

    users: slice
    candidates: slice | np.ndarray


class Catalogue:
    """Candidates of one model.

    Args:
        candidates: values of its column of candidates; repetitions and nulls are dropped. None is every value of the
            vocabulary.
        boosts: factors of the candidates' likelihood or lift, float64 above 0, each candidate's first one; None is 1.
        groups: names of the candidates' categories, each candidate's first one, null for none, in place of the model's;
            None is the model's.
        columns: vectors of the candidates' columns, each candidate's first one, float32 ``[N, width]``, for a model
            that reads columns of items; None is none.

    Attributes:
        column: the model's column of candidates.
        names: the candidates, string ``[N]``.
        counts: of the sampling distribution, ``[N]``; None if unknown.
        flags: UNKNOWN_ITEM for one outside the vocabulary, UNSEEN for one that is never drawn as a negative, else
            empty; object ``[N]``. NEW_ITEM for one outside the vocabulary that the model scores by its given category
            and columns.
        behind: bool ``[N]``, the candidates with another flag, which rank behind the others, by how popular their
            category is, as far as the model reads one.
        level: float64 ``[N]``, how often the category of one behind was chosen; else 0.
        popularity: of the candidates; None if the counts are unknown.
        keeps_seen: whether items of a history are in its list, as the model's data say.
        log_boost: the logarithm of the boosts, float64 ``[N]``, which lists add to the scores; None without boosts.
        vectors: of the candidates, float32 ``[N, width]``, whose dot product with a user's orders them; None if the
            model has none.
        value: name of what ``values`` returns: LIKELIHOOD; LIFT if the counts are unknown; the model's output if
            its data set samples no negatives.
        note: why the candidates are ranked by lift; else empty.

    Raises:
        KfrecError: the model's data set has no candidates, or the model cannot encode them, or boosts are given and
            it is ranked by neither likelihood nor lift.
    """

    def __init__(
        self,
        raw: RawModel,
        candidates: pa.Array | None = None,
        boosts: np.ndarray | None = None,
        groups: pa.Array | None = None,
        columns: np.ndarray | None = None,
    ) -> None:
        self.raw, self.column = raw, candidate_column(raw)
        names = every_candidate(raw) if candidates is None else self.spelled(candidates)
        self.names = names.drop_null().unique()
        first = pc.index_in(self.names, value_set=names)
        self.log_boost = None if boosts is None else np.log(boosts[first.to_numpy()])
        self._groups = None if groups is None else groups.take(first)
        self._new: tuple[Newcomers | NewByVector, ...] = ()
        encoded = encoded_by_role(raw, {CANDIDATE: self.names})
        targets = raw.model.spec.channels.get(Channel.TARGET, ())
        self._features = {name: encoded.features[name] for name in raw.model.inputs if name in targets}
        is_unknown = encoded.unknown.get(self.column.name, np.zeros(len(self.names))) > 0
        # An item's first feature is its id, the second its category.
        of_category = targets[1] if len(targets) > 1 and targets[1] in self._features else ""
        is_told = np.zeros(len(self.names), bool)
        known = raw.model.item_columns
        if of_category and (TARGET_VECTORS in raw.model.retrieval or known):
            is_told = is_unknown & self._tell_categories(of_category, is_unknown)
        if known and columns is not None:
            is_told = is_unknown
        self._told, self._columns = np.flatnonzero(is_told), np.zeros((0, 0), np.float32)
        if known:
            vectors = known.of_none(len(self.names)) if columns is None else columns[first.to_numpy()]
            self._columns = vectors[self._told]
        self._output = _ranked_output(raw)
        self.keeps_seen = raw.model.spec.keeps_seen
        self.vectors: np.ndarray | None = None
        if TARGET_VECTORS in raw.model.retrieval:
            self.vectors = raw.model.vectors_of(TARGET_VECTORS, self._features)
            if known:
                self.vectors[self._told] += raw.model.vectors_of(COLUMN_VECTORS, {COLUMNS: self._columns})
        sampled = isinstance(raw.rows, SampledNegatives) and self._output in (LOGIT, PROBABILITY)
        self._is_probability = sampled and self._output == PROBABILITY
        self.counts = raw.rows.sampling_counts(self.names) if isinstance(raw.rows, SampledNegatives) else None
        self.flags = np.full(len(self.names), "", object)
        if self.counts is not None:
            self.flags[self.counts == 0] = UNSEEN
        self.flags[is_unknown] = UNKNOWN_ITEM
        self.flags[is_told] = NEW_ITEM
        self.behind = (self.flags != "") & ~is_told
        self.popularity = None if self.counts is None else Popularity(self.counts, self._features.get(of_category))
        self.level = np.zeros(len(self.names))
        if self.popularity is not None:
            self.level[self.behind] = self.popularity.of_category[self.behind]
        self.value, self.note, self._log_q = self._output, "", np.zeros(len(self.names))
        if self._output == LOG_LIKELIHOOD:
            self.value = LIKELIHOOD
        elif sampled and self.counts is not None:
            drawn = self.counts > 0
            weights = np.where(drawn, self.counts, self.counts[drawn].min(initial=1.0) / 2)
            self.value, self._log_q = LIKELIHOOD, np.log(weights) - np.log(weights.sum())
        elif sampled:
            self.value = LIFT
            self.note = (
                "ranks by lift, how much likelier a user chooses an item than other users do, not by likelihood: the "
                "model was written without the counts of its sampled negatives; train again from the raw files"
            )
        if boosts is not None and self.value not in (LIKELIHOOD, LIFT):
            raise KfrecError(
                f"column boost: the model ranks by {self.value}, which is no likelihood that a factor can raise; leave "
                "out the column"
            )

    def _tell_categories(self, feature: str, unknown: np.ndarray) -> np.ndarray:
        """Gives unknown candidates the category that is given for them, as a feature of the model.

        Args:
            unknown: bool ``[N]``.

        Returns:
            Whether the model knows the given category of each candidate, bool ``[N]``.
        """
        rows = self.raw.rows
        ids = (
            rows.category_ids(self._groups) if self._groups is not None and isinstance(rows, NamedCategories) else None
        )
        if ids is None:
            return np.zeros(len(unknown), bool)
        self._features[feature] = np.where(unknown & (ids >= 0), ids, self._features[feature])
        return ids >= 0

    @cached_property
    def categories(self) -> np.ndarray:
        """The category of each candidate, ids ``[N]``; those of unknown category share one.

        Raises:
            KfrecError: the model keeps no categories, or all candidates have one.
        """
        if self.known_categories is None:
            raise KfrecError(
                "a number per category: the model keeps no categories of items, or one for all candidates; train it on "
                "data with categories, or leave it out"
            )
        return self.known_categories

    @cached_property
    def known_categories(self) -> np.ndarray | None:
        """As ``categories``; None if the model keeps none, or all candidates have one."""
        if self._groups is not None:
            return self._groups.dictionary_encode("encode").indices.to_numpy().astype(np.int64)
        rows = self.raw.rows
        found = rows.categories(self.names) if isinstance(rows, Categorized) else None
        return None if found is None or len(np.unique(found)) < 2 else found

    @property
    def lists_new(self) -> bool:
        """Whether ``list_new`` has something to list: new candidates with a category or columns, and likelihoods to
        share."""
        is_new = (self.flags == NEW_ITEM) | ((self.flags == UNKNOWN_ITEM) & (self._groups is not None))
        return self.value == LIKELIHOOD and bool(is_new.any())

    def list_new(self, counts: np.ndarray) -> None:
        """Lists unknown candidates among the others, flagged NEW_ITEM, by their popularity in their category, which is
        added to the score of those with a vector; see ``components.scoring.newcomers``.

        Args:
            counts: recent events of the candidates, ``[N]``.
        """
        codes = np.full(len(self.names), -1)
        if self._groups is not None:
            codes = self._groups.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
        by_vector = NewByVector(codes, self.flags == NEW_ITEM, counts)
        others = Newcomers(codes, ~self.behind & (self.flags != NEW_ITEM), self.flags == UNKNOWN_ITEM, counts)
        self._new = by_vector, others
        self.flags, self.behind, self.level = self.flags.copy(), self.behind.copy(), self.level.copy()
        self.flags[others.places] = NEW_ITEM
        self.behind[others.places] = False
        self.level[others.places] = 0

    @property
    def scores_pairs(self) -> bool:
        """Whether each candidate of a user is a sample of its own, which takes many times as long as to retrieve."""
        return not self.raw.model.retrieval

    def encoded(
        self,
        users: pa.Array,
        histories: pa.Array,
        excluded: np.ndarray | int = 0,
        context: Mapping[str, pa.Array] | None = None,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Users as ``scores`` takes them.

        Args:
            users: ids, string ``[n]``.
            histories: lists of events, oldest first, ``[n]``; see ``components.datasets.event_lists``. Values that they
                lack are missing.
            excluded: number of further items that a first stage retrieves in vain, ``[n]``.
            context: columns of the role CONTEXT, by name, ``[n]`` each. What they lack is as in the newest event of
                the history.

        Returns:
            The inputs, and the number of unknown ids of each user and history, ``[n]``.
        """
        further = {each.name: values_of(histories, each.name) for each in self.raw.columns if each.role == BESIDE}
        for each in self.raw.columns:
            if each.role == CONTEXT:
                values = newest_of(values_of(histories, EventColumn(each.name).in_history))
                further[each.name] = self._filled(each.name, (context or {}).get(each.name), values)
        encoded = encoded_by_role(self.raw, {USER: users, HISTORY: items_of(histories)}, further)
        inputs = {name: encoded.features[name] for name in self.raw.model.inputs if name not in self._features}
        unknown = [lacking for name, lacking in encoded.unknown.items() if name != self.column.name]
        return inputs, np.sum(unknown, axis=0) if unknown else np.zeros(len(users), np.int32)

    def _filled(self, name: str, given: pa.Array | None, values: pa.Array) -> pa.Array:
        """Given values of a column, and others where they are missing."""
        if given is None or given.null_count == len(given):
            return values
        return pc.coalesce(*(self.raw.spelled(name, each).cast(pa.large_string()) for each in (given, values)))

    def spelled(self, items: pa.Array) -> pa.Array:
        """Items as ``names`` has them, large string ``[n]``.

        Args:
            items: ids, ``[n]``.
        """
        return self.raw.spelled(self.column.name, items)

    def scores(self, users: Mapping[str, np.ndarray], count: int) -> Iterator[np.ndarray]:
        """As ``blocks``, for one user after the other: float64 ``[N]``."""
        for block in self.blocks(users, count):
            for each in block:
                yield each.astype(np.float64)

    def blocks(self, users: Mapping[str, np.ndarray], count: int) -> Iterator[np.ndarray]:
        """What the candidates are ranked by, for many users at a time.

        Args:
            users: the model's inputs other than the candidates', ``[count]`` or ``[count, length]``.

        Yields:
            ``[users, N]``, which the caller may change; without a likelihood or a lift, the model's output. -inf is no
            candidate of the user.
        """
        for scores in self._of_known(users, count):
            for new in self._new:
                new.score(scores)
            yield scores

    def _of_known(self, users: Mapping[str, np.ndarray], count: int) -> Iterator[np.ndarray]:
        """``blocks``, with scores of new candidates that mean nothing."""
        size = len(self.names)
        if self.raw.model.retrieval:
            yield from self._from_retrieval(users, count)
            return
        at_once = max(1, _BLOCK // max(size, 1))

        def begin(first: int) -> Callable[[], dict[str, np.ndarray]]:
            parts = _parts(first, min(first + at_once, count), size)
            return self.raw.model.begin_parts(parts, lambda part: self._samples(users, part))

        for outputs in behind(map(begin, range(0, count, at_once))):
            yield self._log_odds(outputs()[self._output].reshape(-1, size)) + self._log_q

    def scores_of(self, users: Mapping[str, np.ndarray], candidates: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The scores of some candidates of each user; see ``scores``.

        Args:
            users: as for ``scores``.
            candidates: places of each user's candidates, int64 ``[n]`` each.

        Yields:
            float64 ``[n]``.
        """

        def begin(user: int, places: np.ndarray) -> Callable[[], np.ndarray]:
            if not len(places):
                return lambda: np.zeros(0)
            parts = (places[first : first + part_size()] for first in range(0, len(places), part_size()))
            outputs = self.raw.model.begin_parts(
                [_Part(slice(user, user + 1), part) for part in parts], lambda part: self._samples(users, part)
            )
            return lambda: self._log_odds(outputs()[self._output]) + self._log_q[places]

        begun = (begin(user, places) for user, places in enumerate(candidates))
        for scores in behind(begun, 2 * cores()):
            yield scores()

    def _log_odds(self, outputs: np.ndarray) -> np.ndarray:
        values = outputs.astype(np.float64)
        if not self._is_probability:
            return values
        values = np.clip(values, _SMALLEST, _LARGEST)
        return np.log(values) - np.log1p(-values)

    def _from_retrieval(self, users: Mapping[str, np.ndarray], count: int) -> Iterator[np.ndarray]:
        """``blocks`` of a model that scores all items at once, or by the dot product of two vectors."""
        model, item = self.raw.model, self.raw.model.spec.channel(Channel.TARGET)[0]
        of_items = ITEM_SCORES in model.retrieval
        at_once = max(1, _PRODUCTS // ((item.cardinality or 0) + 1 if of_items else max(len(self.names), 1)))
        for first in range(0, count, at_once):
            part = {name: values[first : first + at_once] for name, values in users.items()}
            if self.vectors is None:
                scores = model.vectors_of(ITEM_SCORES, part)[:, self._features[item.name]]
                if self._columns.size:
                    told = {name: values[self._told] for name, values in self._features.items()}
                    scores[:, self._told] = model.vectors_of(NEW_SCORES, part, {**told, COLUMNS: self._columns})
                yield scores
            else:
                yield model.vectors_of(USER_VECTORS, part) @ self.vectors.T

    def cold(self, histories: pa.Array) -> np.ndarray:
        """Which histories have items, but none that the model has learned from, bool ``[n]``.

        A user without a history is not cold: the model has learned what users begin with. Without counts nothing is.

        Args:
            histories: lists of items, ``[n]``.
        """
        cold = np.zeros(len(histories), bool)
        items = histories.flatten()
        counts = self.raw.rows.sampling_counts(items) if isinstance(self.raw.rows, SampledNegatives) else None
        if counts is not None:
            ends = np.cumsum(pc.fill_null(pc.list_value_length(histories), 0).to_numpy())
            learned = np.concatenate([[0], np.cumsum(counts > 0)])
            starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
            cold = (ends > starts) & (learned[ends] == learned[starts])
        return cold

    def values(self, scores: np.ndarray, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """The values of some candidates, float64 ``[n]``; see ``value``. Likelihoods of all candidates of a user sum
        to 1.

        Args:
            scores: ``[users, N]``, -inf for what is no candidate; may be changed.
            rows: users of the candidates, ``[n]``.
            places: of the candidates, ``[n]``.
        """
        own = scores[rows, places].astype(np.float64)
        if self.value == LIKELIHOOD:
            largest = scores.max(axis=1, keepdims=True, initial=-np.inf)
            with np.errstate(invalid="ignore"):  # of users without a candidate
                weights = np.exp(np.subtract(scores, largest, out=scores), out=scores)
            return np.exp(own - largest[rows, 0]) / weights.sum(axis=1, dtype=np.float64)[rows]
        return np.exp(own) if self.value == LIFT else own

    def best(self, scores: np.ndarray, excluded: np.ndarray, top: int) -> np.ndarray:
        """The places of the best candidates, best first; ties keep the order of the candidates.

        Args:
            scores: of a user, ``[N]``.
            top: largest number of places.
        """
        left = np.where(self.left(scores, excluded), scores, -np.inf)
        return best_of(left[np.newaxis], top, self.behind, self.level)[1]

    def rank(self, scores: np.ndarray, excluded: np.ndarray, target: int) -> float:
        """The rank of a candidate, from 1; among equal scores the mean of their ranks. Above all candidates and
        LONGEST_LIST for one that is left out.

        Args:
            scores: of a user, ``[N]``.
            excluded: places of the candidates to leave out.
        """
        left = self.left(scores, excluded)
        if not left[target]:
            return max(len(left), LONGEST_LIST) + 1
        alike = left & (self.behind == self.behind[target])
        level = alike & (self.level == self.level[target])
        before = (left & (self.behind < self.behind[target])) | (alike & (self.level > self.level[target]))
        before |= level & (scores > scores[target])
        ties = np.count_nonzero(level & (scores == scores[target])) - 1
        return 1 + np.count_nonzero(before) + ties / 2

    def left(self, scores: np.ndarray, excluded: np.ndarray) -> np.ndarray:
        """Which candidates of a user are ranked, bool ``[N]``: those that are not excluded.

        Args:
            scores: of a user, ``[N]``.
        """
        left = scores > -np.inf
        left[excluded] = False
        return left

    def _samples(self, users: Mapping[str, np.ndarray], part: _Part) -> dict[str, np.ndarray]:
        copies, chosen = part.users.stop - part.users.start, part.candidates
        repeats = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
        if copies == 1 and repeats > 1 and self.raw.model.targets is not None:
            return {name: values[part.candidates] for name, values in self._features.items()} | {
                name: values[part.users] for name, values in users.items()
            }
        candidates = {name: np.tile(values[part.candidates], copies) for name, values in self._features.items()}
        return candidates | {name: np.repeat(values[part.users], repeats, 0) for name, values in users.items()}


def encoded_by_role(
    raw: RawModel, columns: Mapping[str, pa.Array], further: Mapping[str, pa.Array] | None = None
) -> Encoded:
    """Encodes columns by role, and further ones by name; the others are one empty row.

    Raises:
        KfrecError: the model reads a column without a role, or a value cannot be encoded.
    """
    empty = {column.name: {**_EMPTY, **columns}[column.role] for column in raw.columns if column.role}
    rows = {name: (further or {}).get(name, values) for name, values in empty.items()}
    raw.require(rows)
    return raw.rows.encode(rows)


def _ranked_output(raw: RawModel) -> str:
    """The output that candidates are ranked by: the first of RANKED_BY, or else the only one.

    Raises:
        KfrecError: the model returns several others.
    """
    found = ranked_by(raw.model.outputs)
    if found is None:
        raise KfrecError(
            f"the model returns {', '.join(raw.model.outputs)}, and candidates are ranked by {', '.join(RANKED_BY)} "
            "or the only output"
        )
    return found


def _parts(first: int, end: int, candidates: int) -> Iterator[_Part]:
    """Users ``first`` to ``end`` times all candidates, user by user, in parts of nearly equal size. A part of many
    candidates has one user, so that a model can trim the padding of the history."""
    most = part_size()
    if candidates > most:
        edges = np.linspace(0, candidates, 1 - -candidates // most).astype(int).tolist()
        for user in range(first, end):
            yield from (_Part(slice(user, user + 1), slice(*pair)) for pair in pairwise(edges))
        return
    users = max(1, most // max(candidates, 1))
    for user in range(first, end, users):
        yield _Part(slice(user, min(user + users, end)), slice(0, candidates))


def candidate_column(model: RawModel) -> RawColumn:
    """The column of the candidates.

    Raises:
        KfrecError: the model's data set has none.
    """
    column = model.column_of(CANDIDATE)
    if column is None:
        raise KfrecError(
            f"the data set {model.dataset} has no candidates to recommend; score rows of your own with kfrec predict"
        )
    return column


def every_candidate(model: RawModel) -> pa.Array:
    """Every item of the model's vocabulary.

    Raises:
        KfrecError: the model's data set has no candidates.
    """
    candidate_column(model)
    spec = model.model.spec
    vocabulary = spec.vocabulary_of(spec.channel(Channel.TARGET)[0].name)
    if vocabulary is None:
        raise KfrecError(f"{spec.folder}: no vocabulary of items; give the items with --candidates")
    return IdLookup(spec, vocabulary).values
