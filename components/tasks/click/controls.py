"""The controls of the task click: changed histories and users, the baselines, and their metric."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from components.contract import PROBABILITY
from components.feature_spec import Channel, FeatureSpec
from components.metrics import resampled_auc
from components.tasks.binary.columns import column_baselines
from components.tasks.binary.importance import shuffled_columns
from components.tasks.binary.measure import RESAMPLES
from components.tasks.click import USER, ClickEvaluation
from components.tasks.click.baselines import history_baselines
from components.tasks.controls import Controls, Intervals, Probe, Samples
from components.tasks.scores import Scores
from components.tasks.unknown import oldest_two, told_apart

OTHER_HISTORY, EMPTY_HISTORY, UNKNOWN_USER = "other_history", "empty_history", "unknown_user"


def probes_of(spec: FeatureSpec) -> tuple[Probe, ...]:
    """The probes that the data allow: of the history with a positive history, of users with their vocabularies.

    The negative history stays as it is.
    """
    held = set(spec.sources["test"].features)
    history = tuple(
        name
        for channel in (Channel.POSITIVE, Channel.EVENTS)
        for name in spec.channels.get(channel, ())
        if name in held
    )
    users = tuple(name for name in spec.channels.get(Channel.USER, ()) if name in held)
    probes = []
    if history:
        vocabulary = spec.vocabulary_of(users[0]) if users else None
        unknown_id = vocabulary.unknown if vocabulary else None
        other = partial(other_history, history=history, user=next(iter(users), ""), unknown=unknown_id)
        probes.append(Probe(OTHER_HISTORY, tuple(dict.fromkeys((*history, *users[:1]))), history, other))
        probes.append(Probe(EMPTY_HISTORY, history, history, partial(empty_history, history=history)))
    vocabularies = {name: spec.vocabulary_of(name) for name in users}
    unknown = {name: vocabulary.unknown for name, vocabulary in vocabularies.items() if vocabulary is not None}
    if history and unknown and len(unknown) == len(users):
        probes.append(Probe(UNKNOWN_USER, users, users, partial(unknown_user, unknown=unknown)))
    return tuple(probes)


def other_history(
    samples: Samples, history: tuple[str, ...], user: str, unknown: int | None = None
) -> dict[str, np.ndarray]:
    """Gives each user's samples the history of another user, all features of it alike.

    The users form a random cycle; each gets the history of the next one's first sample. Samples without a user are
    users of their own. The cycle depends on nothing but the samples.

    Args:
        user: feature of the user, or empty.
        unknown: the id of unknown users, who are told apart by their histories; None if there is none.
    """
    rows = len(samples[history[0]])
    users = samples[user] if user else np.arange(rows)
    if user and unknown is not None:
        users = told_apart(users, unknown, oldest_two(samples[history[0]]))
    _, first, inverse = np.unique(users, return_index=True, return_inverse=True)
    cycle = np.random.default_rng(0).permutation(len(first))
    donor = np.empty(len(first), np.int64)
    donor[cycle] = first[np.roll(cycle, -1)]
    return {name: samples[name][donor[inverse]] for name in history}


def empty_history(samples: Samples, history: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Histories of padding alone."""
    return {name: np.zeros_like(samples[name]) for name in history}


def unknown_user(samples: Samples, unknown: dict[str, int]) -> dict[str, np.ndarray]:
    """Every user's id is the one of unknown users."""
    return {name: np.full_like(samples[name], each) for name, each in unknown.items()}


def controls(spec: FeatureSpec, parameters: ClickEvaluation) -> Controls | None:
    """The probes and baselines that the data allow; None if there are none."""
    probes = probes_of(spec)
    baselines = (history_baselines(spec) or column_baselines(spec)) if parameters.baseline_samples else None
    columns = shuffled_columns(spec) if parameters.importance_samples else ()
    if not parameters.control_samples or not (probes or baselines or columns):
        return None
    return Controls(
        probes,
        baselines,
        PROBABILITY,
        parameters.control_samples,
        parameters.baseline_samples,
        columns=columns,
        column_samples=parameters.importance_samples,
    )


def auc_intervals(scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over users, all on the same draws."""
    resampled = resampled_auc(
        scores.labels, [scores.outputs[PROBABILITY], *others], samples=RESAMPLES, clusters=scores.kept.get(USER)
    )
    return resampled.interval
