"""The rank of each sampled test user's newest item among all items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.values import read_values
from components.progress import progress
from components.scoring.catalogue import Catalogue
from components.scoring.mixing import mixed
from components.scoring.newest import NewestSamples, choice_label, events_of, is_chosen
from components.scoring.raw import RawModel
from components.scoring.split import READ_AHEAD, translated
from components.tasks import Ranked
from components.tasks.unknown import oldest_two

_ROWS = 16_384
_NOWHERE = -1


def rank_test_users(
    spec: FeatureSpec, raw: RawModel, lookups: Mapping[str, np.ndarray], *, users: int, scores: int, top: int
) -> Ranked | None:
    """Ranks all items of the model's vocabulary for a sample of the test split's users.

    The newest positive sample of a user gives the history and the target. Items of the history are excluded, but not
    the target, which may be a repetition. Users outside the vocabulary share an id and are told apart by their two
    oldest items. Data without users count each sample as one.

    Args:
        spec: the data, with histories.
        raw: the model.
        lookups: as for ``components.scoring.split.score_split``.
        users: largest number of users.
        scores: largest number of scores, which lowers the number of users of a large catalogue, to one at least.
        top: length of the lists.

    Returns:
        The ranks; None if the split has no positive sample, or its items have no vocabulary.

    Raises:
        KfrecError: the model ranks no candidates.
    """
    item = spec.channel(Channel.TARGET)[0].name
    vocabulary = spec.vocabulary_of(item)
    if vocabulary is None:
        return None
    catalogue = Catalogue(raw)
    candidates = len(catalogue.names)
    inputs = [name for name in raw.model.inputs if name not in spec.channels[Channel.TARGET]]
    sampled = _newest_positives(spec, inputs, min(users, max(1, scores // max(candidates, 1))))
    count = len(sampled)
    if not count or not candidates:
        return None
    ids, values = read_values(spec, vocabulary)
    place_of = np.full(max(int(ids.max(initial=0)), int(sampled.events.max())) + 1, _NOWHERE)
    place_of[ids] = pc.fill_null(pc.index_in(values, value_set=catalogue.names), _NOWHERE).to_numpy()
    seen, targets = place_of[sampled.events[:, :-1]], place_of[sampled.events[:, -1]]

    popularity = None if catalogue.counts is None else catalogue.counts.astype(np.float64)
    ranks, lists = np.full((2, count), np.inf), np.full((2, count, top), _NOWHERE)
    scored = catalogue.scores(translated(sampled.columns, lookups), count)
    with progress("ranking all items", count, "users") as bar:
        for user, own in enumerate(scored):
            target = int(targets[user])
            excluded = np.setdiff1d(seen[user], [_NOWHERE, target])
            for number, by in enumerate((own, popularity)):
                if by is None:
                    continue
                best = catalogue.best(by, excluded, top)
                lists[number, user, : len(best)] = best
                if target != _NOWHERE:
                    ranks[number, user] = catalogue.rank(by, excluded, target)
            bar.advance()
    return Ranked(
        top,
        candidates,
        ranks[0],
        lists[0],
        None if popularity is None else ranks[1],
        None if popularity is None else lists[1],
        catalogue.value,
        catalogue.note,
    )


def _newest_positives(spec: FeatureSpec, inputs: list[str], users: int) -> NewestSamples:
    """The newest positive test sample of a uniform sample of users: those whose ids have the smallest hashes."""
    from components.records import Records, prefetched  # lazy: imports Numba

    target, positive = (spec.channel(name)[0] for name in (Channel.TARGET, Channel.POSITIVE))
    label = choice_label(spec)
    user = next(iter(spec.channels.get(Channel.USER, ())), "")
    known = _known_users(spec, user)
    wanted = dict.fromkeys([*filter(None, [label, user]), target.name, positive.name, *inputs])
    records = Records(spec, "test", features=list(wanted))
    sampled, largest, first = NewestSamples(), np.uint64(2**64 - 1), 0
    with progress("reading the newest test samples", records.rows, "samples") as bar:
        for batch in prefetched(records.batches(_ROWS), READ_AHEAD):
            rows = len(batch[target.name])
            chosen = np.flatnonzero(is_chosen(label, batch, rows))
            events = events_of(batch[positive.name][chosen], batch[target.name][chosen], np.ones(len(chosen), bool))
            if user:
                ids = batch[user][chosen]
                keys = np.where(np.isin(ids, known), ids, -oldest_two(events))
            else:
                keys = first + chosen
            near = mixed(keys) <= largest
            sampled.add(keys[near], events[near], {name: batch[name][chosen[near]] for name in inputs})
            if len(sampled) > users:
                held = sampled.users
                order = np.argsort(mixed(held), kind="stable")[:users]
                largest = mixed(held)[order[-1]]
                sampled.keep(held[np.sort(order)])
            first += rows
            bar.advance(rows)
    return sampled


def _known_users(spec: FeatureSpec, user: str) -> np.ndarray:
    """The ids that stand for one user each."""
    vocabulary = spec.vocabulary_of(user) if user else None
    if vocabulary is not None:
        return read_values(spec, vocabulary)[0]
    return np.arange(1, (spec.features[user].cardinality or 0) + 1) if user else np.zeros(0, np.int64)
