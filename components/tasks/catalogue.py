"""Ranking metrics over the whole catalogue: HR@K, NDCG@K, recall, coverage, novelty and diversity, beside those of
popularity.

Each user has one target, so HR@K is recall@K; recall is therefore given at ten times K:

    HR@K = share of users with rank <= K        NDCG@K = mean of 1 / log2(rank + 1) where rank <= K, else 0

Coverage, novelty and diversity are those of ``components.metrics.lists`` over the lists of K.

All items compete, because metrics on a few sampled ones can order models differently (Krichene and Rendle, "On Sampled
Metrics for Item Recommendation", 2020). Intervals are bootstrapped over users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from components.metrics import CONFIDENCE, ListFigures, mean_interval
from components.parameters import param
from components.report import Figure, Section, table
from components.tasks.definition import CatalogueMeasure, Ranked
from components.tasks.report import with_interval

# Recall is at this many times K.
DEEPER = 10
ABOUT = "catalogue"
_LEVELS = {"": "Model", "popularity_": "Popularity"}
_BEYOND = ("coverage", "novelty", "diversity")


@dataclass(frozen=True)
class CatalogueEvaluation:
    """Parameters of the evaluate step."""

    catalogue_users: int = param(
        300, "Test users for whom all items are ranked; 0 leaves it out", unit="users", at_least=0
    )
    catalogue_scores: int = param(
        3_000_000,
        "Most scores of that ranking, users times items; a larger catalogue is ranked for fewer users",
        unit="scores",
        at_least=1,
    )
    catalogue_top: int = param(10, "Items of a list, the K of HR@K and NDCG@K", unit="items", at_least=1, at_most=1000)


def hits(ranks: np.ndarray, k: int) -> np.ndarray:
    """1 where the target is among the first k, else 0; float64 ``[n]``."""
    return (ranks <= k).astype(np.float64)


def discounted_gains(ranks: np.ndarray, k: int) -> np.ndarray:
    """``1 / log2(1 + rank)`` where the target is among the first k, else 0; float64 ``[n]``."""
    return np.where(ranks <= k, 1 / np.log2(1 + ranks.astype(np.float64)), 0.0)


def measure_catalogue(ranked: Ranked) -> dict[str, Any]:
    """The metrics of ``metrics.json``; the object ``catalogue`` says what they are of."""
    unknown = float(np.isinf(ranked.ranks).mean())
    metrics: dict[str, Any] = {
        "test_catalogue_users": len(ranked.ranks),
        "test_catalogue_items": ranked.candidates,
        "test_catalogue_unknown_targets": unknown,
        ABOUT: {
            "top": ranked.top,
            "by": ranked.by,
            "note": ranked.note,
            "keeps_seen": ranked.keeps_seen,
            "examples": [asdict(example) for example in ranked.examples],
        },
    }
    ours = _of_users(ranked.ranks, ranked.top)
    for name, values in ours.items():
        metrics |= mean_interval(values).metrics(f"test_{name}")
    metrics |= _beyond_accuracy(ranked, ranked.lists, "test_")
    if ranked.popularity_ranks is None or ranked.popularity_lists is None:
        return metrics
    for name, values in _of_users(ranked.popularity_ranks, ranked.top).items():
        metrics |= mean_interval(values).metrics(f"test_popularity_{name}")
        metrics |= mean_interval(ours[name] - values).metrics(f"test_{name}_above_popularity")
    return metrics | _beyond_accuracy(ranked, ranked.popularity_lists, "test_popularity_")


CATALOGUE = CatalogueMeasure(
    users=attrgetter("catalogue_users"),
    scores=attrgetter("catalogue_scores"),
    top=attrgetter("catalogue_top"),
    measure=measure_catalogue,
)


def _of_users(ranks: np.ndarray, top: int) -> dict[str, np.ndarray]:
    """The metrics of each user, ``[users]``, by name."""
    return {
        f"hr_at_{top}": hits(ranks, top),
        f"ndcg_at_{top}": discounted_gains(ranks, top),
        f"recall_at_{DEEPER * top}": hits(ranks, DEEPER * top),
    }


def _beyond_accuracy(ranked: Ranked, lists: np.ndarray, prefix: str) -> dict[str, float]:
    """Coverage, novelty and diversity of lists, ``[users, top]``, as far as the data tell them."""
    figures = ListFigures(ranked.candidates, ranked.counts, ranked.categories)
    figures.add(lists)
    return {f"{prefix}{name}_at_{ranked.top}": value for name, value in figures.figures().items()}


def catalogue_sections(metrics: Mapping[str, Any]) -> Sequence[Section]:
    """The report's section; none without these metrics."""
    about = metrics.get(ABOUT)
    if about is None:
        return ()
    top, users, items = about["top"], metrics["test_catalogue_users"], metrics["test_catalogue_items"]
    names = {
        f"hr_at_{top}": f"HR@{top}",
        f"ndcg_at_{top}": f"NDCG@{top}",
        f"recall_at_{DEEPER * top}": f"Recall@{DEEPER * top}",
    }
    rows = [
        [
            title,
            *(with_interval(metrics, f"test_{prefix}{name}", ".3f") for name in names),
            *(_number(metrics, f"test_{prefix}{name}_at_{top}") for name in _BEYOND),
        ]
        for prefix, title in _LEVELS.items()
        if f"test_{prefix}hr_at_{top}" in metrics
    ]
    if len(rows) > 1:
        differences = (with_interval(metrics, f"test_{name}_above_popularity", ".3f") for name in names)
        rows.append(["Difference", *differences, *[""] * len(_BEYOND)])
    text = (
        f"All {items:,} items ranked for {users:,} users of the test split, "
        f"{'with' if about['keeps_seen'] else 'without'} the items of the history; the target is the item that the "
        "user chose last. An item that the model does not know is a miss: "
        f"{metrics['test_catalogue_unknown_targets']:.1%} of the targets. "
        + (f"The model {about['note']}." if about["note"] else f"Ranked by {about['by']}, as kfrec recommend does.")
    )
    note = (
        f"With {100 * CONFIDENCE:g} % intervals over users. HR@{top}: share of users whose target is among the first "
        f"{top}. Coverage: share of the items that are in any list of {top}; it grows with the number of users. "
        "Novelty: bits that tell a listed item from all choices, more for rarer ones. Diversity: share of the pairs of "
        "a list whose categories differ."
    )
    header = ("", *names.values(), *(f"{name.capitalize()}@{top}" for name in _BEYOND))
    figures = [Figure("Target among all items", table(header, rows), note, wide=True), *_examples(about["examples"])]
    return (Section("All items ranked", text, figures),)


def _examples(examples: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    if not examples:
        return
    rows = [
        (
            ", ".join(example["history"]),
            example["chosen"],
            "–" if example["rank"] is None else f"{example['rank']:,.0f}",
            ", ".join(example["listed"]),
        )
        for example in examples
    ]
    note = "Of sampled users: the newest items of the history, oldest first, and the list, best first."
    yield Figure("Example lists", table(("history", "chosen", "its rank", "list"), rows), note, wide=True)


def _number(metrics: Mapping[str, Any], name: str) -> str:
    return f"{metrics[name]:.3f}" if name in metrics else "–"
