"""Every number and curve that the evaluation reports, and the controls: changed histories and users, and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.feature_spec import Channel, FeatureSpec
from components.metrics import auc_by_bucket, auc_by_group, grouped_auc, resampled_auc
from components.tasks.binary.columns import column_baselines
from components.tasks.binary.importance import measure_importance, shuffled_columns
from components.tasks.binary.measure import RESAMPLES, finite, measure_binary, measure_binary_controls
from components.tasks.click import AUC, USER, ClickEvaluation
from components.tasks.click.baselines import history_baselines
from components.tasks.controls import Controls, Intervals, Probe, Samples
from components.tasks.definition import Measured
from components.tasks.kept import oldest_two, told_apart
from components.tasks.report import ADMITTED, ADMITTED_TITLES, HISTORY_BOUNDS, popularity_bounds
from components.tasks.scores import Scores

CATEGORIES = 12
OTHER_HISTORY, EMPTY_HISTORY, UNKNOWN_USER = "other_history", "empty_history", "unknown_user"


def measure(scores: Scores, parameters: object) -> Measured:
    """Computes metrics and curves from labels of both classes and probabilities."""
    labels, p = scores.labels, scores.outputs[PROBABILITY]
    users = scores.kept.get(USER)
    measured = measure_binary(labels, p, users)
    metrics = dict(measured.metrics)
    if users is not None:
        grouped = grouped_auc(labels, p, users)
        metrics |= {
            "test_grouped_auc": grouped.auc,
            "test_grouped_auc_users": grouped.groups,
            "test_grouped_auc_users_left_out": grouped.left_out,
        }
    if scores.controlled is not None:
        metrics |= measure_binary_controls(scores.controlled, AUC, auc_intervals)
        metrics |= measure_importance(scores.controlled)
    groups = measure_groups(scores)
    return Measured(finite(metrics | groups), measured.curves, group_series(groups))


def measure_groups(scores: Scores) -> dict[str, list[dict[str, Any]]]:
    """Results of ``components.metrics.auc_by_group``, by grouping.

    Intervals use the variance between users, if the data have users: samples of one user are not independent.
    """
    kept, users, probabilities = scores.kept, scores.kept.get(USER), scores.outputs[PROBABILITY]
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, bounds in (("history_length", lambda values: HISTORY_BOUNDS), ("popularity", popularity_bounds)):
        if name in kept:
            values = kept[name]
            groups[f"by_{name}"] = auc_by_bucket(scores.labels, probabilities, values, bounds(values), users)
    if ADMITTED in kept:
        groups["by_new_ids"] = _by_new_ids(scores, users)
    if "category" in kept:
        groups["by_category"] = _by_category(scores, users)
    return groups


def group_series(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[tuple[int, float]]]:
    """The AUC of each group and its interval, as MLflow series.

    A numeric group is a point at its largest number, such as of ``auc_by_popularity/auc``; a category is a separate
    series, such as ``auc_by_category/Fragrance``. Missing values are skipped.
    """
    series: dict[str, list[tuple[int, float]]] = {}
    for group, members in groups.items():
        for each in members:
            if "category" in each:
                if each["low"] is not None:
                    series[f"auc_{group}/{each['category'].replace('/', '_')}"] = [(0, each["auc"])]
                continue
            for name in ("auc", "low", "high"):
                if each[name] is not None:
                    series.setdefault(f"auc_{group}/{name}", []).append((each["to"], each[name]))
    return series


def _by_new_ids(scores: Scores, users: np.ndarray | None) -> list[dict[str, Any]]:
    """The samples with an id that got its row last night, and all others."""
    others = 1 - scores.kept[ADMITTED]
    groups = auc_by_group(scores.labels, scores.outputs[PROBABILITY], others, users)
    return [
        {"category": ADMITTED_TITLES[1 - key], **group} for key, group in zip(np.unique(others), groups, strict=True)
    ]


def _by_category(scores: Scores, users: np.ndarray | None) -> list[dict[str, Any]]:
    """The largest categories, and all others as one group; an id without a name is its own name."""
    ids, inverse, rows = np.unique(scores.kept["category"], return_inverse=True, return_counts=True)
    chosen = np.argsort(-rows, kind="stable")[:CATEGORIES]
    rank = np.full(len(ids), len(chosen))
    rank[chosen] = np.arange(len(chosen))
    names = scores.names.get("category", {})
    titles: list[dict[str, Any]] = [{"category": names.get(each, f"id {each}")} for each in ids[chosen].tolist()]
    titles.append({"category": "others", "pooled": len(ids) - len(chosen)})
    groups = auc_by_group(scores.labels, scores.outputs[PROBABILITY], rank[inverse], users)
    return [{**name, **group} for name, group in zip(titles, groups, strict=False)]


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
