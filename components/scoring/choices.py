"""What the users of a split chose, and where models rank it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.lookup import IdLookup
from components.feature_spec.spec import TEST
from components.feature_spec.values import read_values
from components.progress import progress
from components.random_draws import hashes
from components.scoring.catalogue import Catalogue
from components.scoring.newest import NewestSamples, choice_label, events_of, is_chosen
from components.scoring.split import READ_AHEAD
from components.tasks.kept import oldest_two

NOWHERE = -1
# Most choices of several users.
_MOST = 5_000
_ROWS = 16_384


class Choices(NamedTuple):
    """Choices of some users, by name, so that models of other data can be asked, too.

    Attributes:
        users: ids, string ``[n]``; null for one outside of the vocabulary.
        histories: lists of items before the choice, oldest first, ``[n]``.
        chosen: items, string ``[n]``; null for one outside of the vocabulary.
        owners: a number of each choice's user, those outside of the vocabulary told apart, int64 ``[n]``.
    """

    users: pa.Array
    histories: pa.Array
    chosen: pa.Array
    owners: np.ndarray


def choices_in(spec: FeatureSpec, users: int, split: str = TEST) -> Choices:
    """All choices in a split of a uniform sample of users: those whose ids have the smallest hashes.

    Args:
        users: largest number; there are fewer where they have more than 5,000 choices.

    Raises:
        KfrecError: the data lack users, histories or vocabularies, or no user of the split chose an item.
    """
    keys, ids, events, largest = np.zeros(0, np.int64), np.zeros(0, np.int64), None, np.uint64(2**64 - 1)
    for owners, of_users, found, _ in _chosen_samples(spec, split, []):
        near = hashes(owners) <= largest
        keys, ids = np.concatenate([keys, owners[near]]), np.concatenate([ids, of_users[near]])
        events = found[near] if events is None else np.concatenate([events, found[near]])
        held, counts = np.unique(keys, return_counts=True)
        order = np.argsort(hashes(held), kind="stable")
        fitting = max(1, int(np.count_nonzero(np.cumsum(counts[order])[:users] <= _MOST)))
        if len(held) > fitting:
            largest = hashes(held[order])[fitting - 1]
            near = hashes(keys) <= largest
            keys, ids, events = keys[near], ids[near], events[near]
    if events is None or not len(events):
        raise KfrecError(
            f"{spec.folder}: no user of the split {split} chose an item; give a {split} split with items that users "
            "chose"
        )
    item, user = (_lookup(spec, channel) for channel in (Channel.TARGET, Channel.USER))
    names = iter(item.decode(events[events > 0]))
    lists = [[next(names) for _ in range(count)] for count in np.count_nonzero(events, 1).tolist()]
    return Choices(
        pa.array(user.decode(ids), pa.string()),
        pa.array([each[:-1] for each in lists], pa.list_(pa.string())),
        pa.array([each[-1] for each in lists], pa.string()),
        keys,
    )


def places_of(catalogue: Catalogue, choices: Choices) -> Iterator[tuple[int, np.ndarray]]:
    """The place of each choice among the candidates, NOWHERE if it is none, and those of its history."""
    names = catalogue.names.cast(pa.string())
    seen, chosen = (
        pc.fill_null(pc.index_in(values, value_set=names, skip_nulls=True), NOWHERE).to_numpy()
        for values in (choices.histories.flatten(), choices.chosen)
    )
    ends = choices.histories.offsets.to_numpy()
    for user, target in enumerate(chosen.tolist()):
        before = seen[ends[user] : ends[user + 1]]
        yield target, before[before != NOWHERE]


def ranks_of(catalogue: Catalogue, choices: Choices, *, ranked: Callable[[], None] = lambda: None) -> np.ndarray:
    """The rank of each choice among the candidates, without those of the history unless the catalogue keeps them.

    Args:
        choices: of ``choices_in``.

    Returns:
        float64 ``[n]``, from 1; among equal scores the mean of their ranks; inf for what is no candidate.
    """
    cold = catalogue.cold(choices.histories)
    inputs, _ = catalogue.encoded(choices.users, choices.histories)
    ranks = np.full(len(cold), np.inf)
    scored = zip(catalogue.scores(inputs, len(cold)), places_of(catalogue, choices), strict=True)
    for user, (scores, (target, before)) in enumerate(scored):
        if cold[user] and catalogue.popularity is not None:
            scores = catalogue.popularity.scores(before)
        if target != NOWHERE and scores[target] > -np.inf:
            excluded = before[:0] if catalogue.keeps_seen else before
            ranks[user] = catalogue.rank(scores, excluded, target)
        ranked()
    return ranks


def _lookup(spec: FeatureSpec, channel: str) -> IdLookup:
    feature = next(iter(spec.channels.get(channel, ())), "")
    vocabulary = spec.vocabulary_of(feature) if feature else None
    if vocabulary is None:
        raise KfrecError(
            f"{spec.folder}: no vocabulary of the channel {channel}; prepare the data from raw files again"
        )
    return IdLookup(spec, vocabulary)


def newest_choices(spec: FeatureSpec, inputs: Sequence[str], users: int) -> NewestSamples:
    """The newest positive test sample of a uniform sample of users: those whose ids have the smallest hashes."""
    sampled, largest = NewestSamples(), np.uint64(2**64 - 1)
    for keys, _, events, columns in _chosen_samples(spec, TEST, inputs):
        near = hashes(keys) <= largest
        sampled.add(keys[near], events[near], {name: values[near] for name, values in columns.items()})
        if len(sampled) > users:
            held = sampled.users
            order = np.argsort(hashes(held), kind="stable")[:users]
            largest = hashes(held)[order[-1]]
            sampled.keep(held[np.sort(order)])
    return sampled


def _chosen_samples(
    spec: FeatureSpec, split: str, inputs: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, Mapping[str, np.ndarray]]]:
    """The positive samples of a split, in batches.

    Yields:
        A key of each one's user, the user's id, 0 without users, the events, and the columns ``inputs``.
    """
    from components.records import Records, prefetched  # lazy: imports Numba

    target, positive = (spec.channel(name)[0] for name in (Channel.TARGET, Channel.POSITIVE))
    label = choice_label(spec)
    user = next(iter(spec.channels.get(Channel.USER, ())), "")
    known = _known_users(spec, user)
    wanted = dict.fromkeys([*filter(None, [label, user]), target.name, positive.name, *inputs])
    records, first = Records(spec, split, features=list(wanted)), 0
    with progress(f"reading the choices of the split {split}", records.rows, "samples") as bar:
        for batch in prefetched(records.batches(_ROWS), READ_AHEAD):
            rows = len(batch[target.name])
            chosen = np.flatnonzero(is_chosen(label, batch, rows))
            events = events_of(batch[positive.name][chosen], batch[target.name][chosen], np.ones(len(chosen), bool))
            ids = batch[user][chosen].astype(np.int64) if user else np.zeros(len(chosen), np.int64)
            keys = np.where(np.isin(ids, known), ids, -oldest_two(events)) if user else first + chosen
            yield keys, ids, events, {name: batch[name][chosen] for name in inputs}
            first += rows
            bar.advance(rows)


def _known_users(spec: FeatureSpec, user: str) -> np.ndarray:
    """The ids that stand for one user each."""
    vocabulary = spec.vocabulary_of(user) if user else None
    if vocabulary is not None:
        return read_values(spec, vocabulary)[0]
    return np.arange(1, (spec.features[user].cardinality or 0) + 1) if user else np.zeros(0, np.int64)
