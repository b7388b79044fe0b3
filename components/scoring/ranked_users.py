"""The rank of each sampled test user's newest item among all items."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow.compute as pc

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.catalogue import read_titles
from components.feature_spec.values import names_of, read_values
from components.progress import progress
from components.scoring.catalogue import Catalogue
from components.scoring.choices import newest_choices
from components.scoring.raw import RawModel
from components.scoring.split import translated
from components.tasks import Ranked
from components.tasks.definition import Example

_NOWHERE = -1
# Lists that the report shows, and newest items of the history beside each.
_EXAMPLES, _NEWEST = 10, 5
_NO_NAME = "an item that the model does not know"


def rank_test_users(
    spec: FeatureSpec, raw: RawModel, lookups: Mapping[str, np.ndarray], *, users: int, scores: int, top: int
) -> Ranked | None:
    """Ranks all items of the model's vocabulary for a sample of the test split's users.

    The newest positive sample of a user gives the history and the target. Items of the history are in the lists, and
    compete with the target, as ``Catalogue.keeps_seen`` says. Users outside the vocabulary share an id and are told
    apart by their two oldest items. Data without users count each sample as one.

    Args:
        lookups: as for ``components.scoring.split.score_split``.
        users: largest number of users.
        scores: largest number of scores, which lowers the number of users of a large catalogue, to one at least.

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
    sampled = newest_choices(spec, inputs, min(users, max(1, scores // max(candidates, 1))))
    count = len(sampled)
    if not count or not candidates:
        return None
    ids, values = read_values(spec, vocabulary)
    place_of = np.full(max(int(ids.max(initial=0)), int(sampled.events.max())) + 1, _NOWHERE)
    place_of[ids] = pc.fill_null(pc.index_in(values, value_set=catalogue.names), _NOWHERE).to_numpy()
    seen, targets = place_of[sampled.events[:, :-1]], place_of[sampled.events[:, -1]]

    # As of Catalogue.cold, with places instead of names.
    has_items = np.any(sampled.events[:, :-1] > 0, axis=1)
    learned = np.zeros(1) if catalogue.counts is None else np.append(catalogue.counts > 0, False)[seen]
    cold = has_items & ~learned.any(1) if catalogue.counts is not None else np.zeros(count, bool)
    popularity = None if catalogue.counts is None else catalogue.counts.astype(np.float64)
    ranks, lists = np.full((2, count), np.inf), np.full((2, count, top), _NOWHERE)
    scored = catalogue.scores(translated(sampled.columns, lookups), count)
    with progress("ranking all items", count, "users") as bar:
        for user, own in enumerate(scored):
            target = int(targets[user])
            before = seen[user][seen[user] != _NOWHERE]
            if cold[user] and catalogue.popularity is not None:
                own = catalogue.popularity.scores(before)
            excluded = before[:0] if catalogue.keeps_seen else before
            for number, by in enumerate((own, popularity)):
                if by is None:
                    continue
                best = catalogue.best(by, excluded, top)
                lists[number, user, : len(best)] = best
                if target != _NOWHERE:
                    ranks[number, user] = catalogue.rank(by, excluded, target)
            bar.advance()
    named = _named(spec, catalogue)
    examples = [
        Example(
            named(seen[user][sampled.events[user, :-1] > 0][-_NEWEST:]),
            named(targets[user : user + 1])[0],
            float(ranks[0, user]) if np.isfinite(ranks[0, user]) else None,
            named(lists[0, user][lists[0, user] != _NOWHERE]),
        )
        for user in range(min(_EXAMPLES, count))
    ]
    return Ranked(
        top,
        candidates,
        ranks[0],
        lists[0],
        None if popularity is None else ranks[1],
        None if popularity is None else lists[1],
        catalogue.value,
        catalogue.note,
        catalogue.keeps_seen,
        catalogue.counts,
        catalogue.known_categories,
        examples,
    )


def _named(spec: FeatureSpec, catalogue: Catalogue) -> Callable[[np.ndarray], list[str]]:
    """A function from places in the catalogue to items as in the raw data, with their titles, else their categories."""
    categories, of_items = catalogue.known_categories, spec.channel(Channel.TARGET)
    of_category = {}
    if categories is not None and len(of_items) > 1:
        of_category = names_of(spec, of_items[1].name, np.unique(categories))
    known = read_titles(spec.folder)
    titles = known["title"].take(pc.index_in(catalogue.names, value_set=known["item"]))

    def named(places: np.ndarray) -> list[str]:
        found = []
        for place in places.tolist():
            if place == _NOWHERE:
                found.append(_NO_NAME)
                continue
            name, title = catalogue.names[place].as_py(), titles[place].as_py()
            if title is None and categories is not None:
                title = of_category.get(int(categories[place]))
            found.append(f"{name} ({title})" if title else name)
        return found

    return named
