"""HR@K and NDCG@K, their intervals, the baselines and the report of the task next_item."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.contract import LOG_LIKELIHOOD
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.metrics import mean_interval
from components.tasks import Controlled, Measured, Scores
from components.tasks.controls import BASELINE, RECENT_POPULARITY
from components.tasks.next_item import TASK, NextItemDecision, NextItemEvaluation, NextItemTraining
from components.tasks.next_item.baselines import POPULARITY, NextItemBaselines
from components.train.loop.ranks import Alone

PARAMETERS = NextItemEvaluation(list_length=5)
ITEMS, LENGTH = 30, 4


def scores_of(ranks: np.ndarray, controlled: Controlled | None = None) -> Scores:
    rows = len(ranks)
    return Scores(
        {"label": np.ones(rows, np.int8)},
        {"rank": ranks.astype(np.float32), LOG_LIKELIHOOD: np.full(rows, -3.0, np.float32)},
        {"user": np.arange(rows) // 2},
        controlled=controlled,
    )


def test_metrics_of_known_ranks() -> None:
    metrics = TASK.measure(scores_of(np.tile([1, 2, 5, 6, 100, 1.5], 5)), PARAMETERS).metrics
    assert metrics["test_hr"] == pytest.approx(4 / 6)
    assert metrics["test_ndcg"] == pytest.approx(sum(1 / np.log2(1 + rank) for rank in (1, 2, 5, 1.5)) / 6)
    assert metrics["test_mean_reciprocal_rank"] == pytest.approx((1 + 1 / 2 + 1 / 5 + 1 / 6 + 1 / 100 + 1 / 1.5) / 6)
    assert metrics["test_ndcg_low"] < metrics["test_ndcg"] < metrics["test_ndcg_high"]


def test_training_measures_what_the_evaluation_does_and_only_chosen_items() -> None:
    ranks = np.random.default_rng(1).integers(1, 20, 101)
    streaming = TASK.streaming(False, NextItemTraining(list_length=5))
    for part in np.array_split(ranks, 4):
        outputs = {"rank": tf.constant(np.r_[part, [1]], tf.float32)}
        streaming.update({"label": tf.constant([1.0] * len(part) + [0.0])}, outputs, {})
    found = streaming.result([total.numpy() for total in streaming.totals(Alone())])
    metrics = TASK.measure(scores_of(ranks), PARAMETERS).metrics
    assert found == pytest.approx({"ndcg": metrics["test_ndcg"], "hr": metrics["test_hr"]})
    assert TASK.streaming(True, NextItemTraining()).result([]) == {}


def test_the_difference_is_paired_and_over_users() -> None:
    random = np.random.default_rng(2)
    ours, theirs = random.integers(1, 9, (2, 400))
    found = TASK.difference(scores_of(ours), scores_of(theirs), PARAMETERS, 500, 0.95, 3)
    assert found.estimate == pytest.approx(
        TASK.value(scores_of(ours), PARAMETERS) - TASK.value(scores_of(theirs), PARAMETERS)
    )
    assert found.low < found.estimate < found.high
    # Two equal samples a user are as one: the interval is wider than over samples.
    values = np.repeat(random.random(200), 2)
    clustered = mean_interval(values, samples=500, clusters=np.arange(400) // 2)
    single = mean_interval(values, samples=500)
    assert clustered.high - clustered.low > 1.2 * (single.high - single.low)


def test_a_split_without_chosen_items_is_refused(tmp_path: Path) -> None:
    drawn = scores_of(np.ones(3))
    drawn.targets["label"][:] = 0
    with pytest.raises(KfrecError, match=r"no test sample has a chosen item; give a test split with"):
        TASK.require(drawn, tmp_path)


def sequences(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Items that mostly go up by 1."""
    random = np.random.default_rng(seed)
    steps = np.where(random.random((rows, LENGTH)) < 0.7, 1, random.integers(2, ITEMS, (rows, LENGTH)))
    first = np.minimum(random.geometric(0.1, (rows, 1)), ITEMS) - 1
    events = (np.cumsum(np.c_[first, steps], axis=1) % ITEMS) + 1
    history = events[:, :-1].copy()
    history[np.arange(LENGTH) < random.integers(0, LENGTH, (rows, 1))] = 0
    return {"item": events[:, -1], "item_sequence": history}


def fitted(*parts: dict[str, np.ndarray], **sampling: object) -> NextItemBaselines:
    features = [Feature("item", "int32", ITEMS), Feature("item_sequence", "int32", ITEMS, LENGTH)]
    spec = FeatureSpec(
        {feature.name: feature for feature in features},
        {},
        {Channel.TARGET: ("item",), Channel.POSITIVE: ("item_sequence",)},
        {"encoding": {"sampling": sampling}},
    )
    baselines = NextItemBaselines(spec, *features)
    baselines.fit(parts[:1], parts[1:])
    return baselines


@pytest.fixture(scope="module")
def baselines() -> NextItemBaselines:
    return fitted(sequences(300, 1), sequences(200, 2))


@pytest.mark.parametrize("seen_items", ["", "keep"])
def test_the_baselines_rank_by_their_formulas(seen_items: str) -> None:
    baselines = fitted(sequences(300, 1), sequences(200, 2), seen_items=seen_items)
    counts: Counter[int] = Counter()
    follow: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for part in (sequences(300, 1), sequences(200, 2)):
        for history, target in zip(part["item_sequence"].tolist(), part["item"].tolist(), strict=True):
            events = [*history, target]
            counts.update(item for item in events if item)
            for place, item in enumerate(events):
                for apart in range(1, 4):
                    after = events[place + apart] if place + apart < len(events) else 0
                    if item and after and (after != item or seen_items == "keep"):
                        follow[item][after] += 1 / apart
    tested = sequences(60, 3)
    found = baselines.scores(tested)
    for row, (history, target) in enumerate(
        zip(tested["item_sequence"].tolist(), tested["item"].tolist(), strict=True)
    ):
        left_out = [] if seen_items == "keep" else history
        if target in left_out:
            assert found[POPULARITY][row] == found[BASELINE][row] == 100_001
            continue
        rivals = [item for item in range(1, ITEMS + 1) if item not in left_out and item != target]

        def rank(score: dict[int, float], rivals: list[int] = rivals, target: int = target) -> float:
            near = 1e-12
            above = sum(score[rival] > score[target] + near for rival in rivals)
            level = sum(abs(score[rival] - score[target]) <= near for rival in rivals)
            return 1 + above + level / 2

        popularity = {item: counts[item] / (sum(counts.values()) + 1) for item in range(1, ITEMS + 1)}
        assert found[POPULARITY][row] == rank(popularity)
        pairs = {item: 1e-9 * popularity[item] for item in range(1, ITEMS + 1)}
        for ago, item in enumerate(reversed(history)):
            for other, weight in follow[item].items():
                pairs[other] += 0.5**ago * weight / sum(follow[item].values())
        # Sums in another order may put near candidates in another one.
        assert abs(found[BASELINE][row] - rank(pairs)) <= 1
    assert (found[BASELINE] == 1).mean() > 0.5 > (found[POPULARITY] == 1).mean()


def test_only_what_targets_are_counts_after_histories_of_other_kinds_of_events() -> None:
    views = {"item": np.array([3, 3, 5]), "item_sequence": np.array([[1, 2, 1, 2], [0, 0, 0, 2], [0, 0, 0, 4]])}
    found = fitted(views, target_kinds=["purchase"]).scores(
        {"item": np.array([3, 5]), "item_sequence": np.array([[0, 0, 0, 2], [0, 0, 0, 4]])}
    )
    assert found[POPULARITY].tolist() == [1, 2]
    assert found[BASELINE].tolist() == [1, 1]


def test_recent_popularity_ranks_by_the_last_days_and_then_by_all(tmp_path: Path) -> None:
    (tmp_path / "vocabulary").mkdir()
    # Item 4 is the newest, 3 is chosen most often, 1 once more than 2.
    table = {"id": [1, 2, 3, 4], "value": ["a", "b", "c", "d"], "recent": [0, 0, 2, 5]}
    pq.write_table(pa.table(table), tmp_path / "vocabulary" / "item.parquet")
    features = [Feature("item", "int32", 4), Feature("item_sequence", "int32", 4, 2)]
    baselines = NextItemBaselines(
        FeatureSpec(
            {feature.name: feature for feature in features},
            {},
            {Channel.TARGET: ("item",), Channel.POSITIVE: ("item_sequence",)},
            {"vocabulary": {"item": {"file": "vocabulary/item.parquet", "unknown": 0, "features": ["item"]}}},
            tmp_path,
        ),
        *features,
    )
    trained = {"item": np.array([3, 3, 3, 1, 1, 2, 4]), "item_sequence": np.zeros((7, 2), np.int64)}
    baselines.fit([trained], [])
    tested = {"item": np.array([1, 2, 3, 4, 1]), "item_sequence": np.array([[0, 0]] * 4 + [[3, 4]])}
    found = baselines.scores(tested)
    assert found[RECENT_POPULARITY].tolist() == [3, 4, 2, 1, 1]
    assert found[POPULARITY].tolist() == [2, 3.5, 1, 3.5, 1]


def test_a_model_below_the_popularity_of_the_last_days_is_no_champion() -> None:
    random = np.random.default_rng(5)
    good, bad = random.integers(1, 4, 300).astype(np.float64), random.integers(4, 200, 300).astype(np.float64)
    others = {BASELINE: bad, RECENT_POPULARITY: good}
    measured = TASK.measure(scores_of(good + 3, Controlled(scores_of(good + 3), others, 100)), PARAMETERS)
    vetoes = TASK.baseline_vetoes(measured.metrics, NextItemDecision())
    assert "the model does not beat the popularity of the last days of training: test NDCG@5" in vetoes[-1]
    assert list(TASK.remarks(measured.metrics))[-1] == vetoes[-1]
    assert "popularity of the last days" in str(TASK.story(measured).first)


def test_an_unknown_target_is_a_miss_in_a_list_of_all_items(baselines: NextItemBaselines) -> None:
    unknown = {"item": np.array([ITEMS + 5]), "item_sequence": np.array([[0, 0, 1, 2]])}
    assert all(ranks > 100_000 for ranks in baselines.scores(unknown).values())


def test_a_model_below_the_baseline_is_no_champion_and_the_report_says_so() -> None:
    random = np.random.default_rng(5)
    good, bad = random.integers(1, 4, 300).astype(np.float64), random.integers(4, 200, 300).astype(np.float64)

    def measured(ours: np.ndarray, theirs: np.ndarray) -> Measured:
        return TASK.measure(scores_of(ours, Controlled(scores_of(ours), {BASELINE: theirs}, 100)), PARAMETERS)

    assert not TASK.baseline_vetoes(measured(good, bad).metrics, NextItemDecision())
    (reason,) = TASK.baseline_vetoes(measured(bad, good).metrics, NextItemDecision())
    assert "the model does not beat the built-in baseline: test NDCG@5" in reason
    assert not TASK.baseline_vetoes(measured(bad, good).metrics, NextItemDecision(beat_baseline=False))
    (said,) = TASK.remarks(measured(good, bad).metrics)
    assert said.startswith("the model beats the built-in baseline: test NDCG@5") and "item_knn" not in said
    assert TASK.story(measured(good, bad)).headline.endswith(", above the built-in baseline")
    (remark,) = TASK.remarks(measured(bad, good).metrics)
    assert remark.startswith(reason) and "; item_knn, if this is another model, counts pairs" in remark
    story = TASK.story(measured(bad, good))
    assert story.headline.startswith("Test NDCG@5 0.0") and story.headline.endswith("not above the built-in baseline")
    assert "The model does not beat the built-in baseline" in story.lead
    assert "pairs of items do better" in str(story.first)


def test_a_metric_has_its_length_in_its_name() -> None:
    assert [metric.label for metric in TASK.metrics] == ["NDCG@K", "HR@K"]
    assert [metric.label for metric in TASK.at({"list_length": 20, "k": 3}).metrics] == ["NDCG@20", "HR@20"]
    assert TASK.primary.at({"test_list_length": 5}).label == "NDCG@5" and TASK.at({}).metrics == TASK.metrics


def test_new_items_new_users_and_bands_of_popularity_and_history_have_their_own_figures() -> None:
    ranks = np.tile([1.0, 2.0, 100.0, 100.0], 30)
    kept = {
        "user": np.arange(120),
        "known_user": np.tile([1, 1, 1, 0], 30),
        "popularity": np.tile([9, 3, 0, 3], 30),
        "history_length": np.tile([2, 7, 7, 7], 30),
    }
    measured = TASK.measure(replace(scores_of(ranks), kept=kept), PARAMETERS)
    metrics = measured.metrics
    assert (metrics["test_new_items"], metrics["test_new_users"]) == (0.25, 0.25)
    assert [(each["users"], each["rows"], each["hr"]) for each in metrics["by_user"]] == [
        ("returning", 90, pytest.approx(2 / 3)),
        ("new", 30, 0.0),
    ]
    bands = [(each["from"], each["to"], each["rows"], each["hr"]) for each in metrics["by_popularity"]]
    assert bands == [(0, 0, 30, 0.0), (3, 3, 60, 0.5), (9, 9, 30, 1.0)]
    assert [(each["from"], each["rows"]) for each in metrics["by_history_length"]] == [(2, 30), (7, 90)]
    (section,) = (each for each in TASK.story(measured).sections if each.title.startswith("New items"))
    assert "25.0% of the samples are of new items" in section.text
    assert [figure.title for figure in section.figures] == [
        "Returning and new users", "NDCG by popularity of the chosen item", "NDCG by length of history"
    ]  # fmt: skip


def test_kinds_of_events_have_their_own_figures() -> None:
    kept = {"user": np.arange(120), "target_kind": np.tile([2, 1, 1, 1, 0], 24)}
    scores = replace(scores_of(np.tile([1.0, 1.0, 1.0, 100.0, 2.0], 24)), kept=kept)
    measured = TASK.measure(replace(scores, names={"target_kind": {1: "view", 2: "purchase"}}), PARAMETERS)
    views, others, purchases = measured.metrics["by_kind"]
    assert [(each["kind"], each["rows"]) for each in (views, others, purchases)] == [
        ("view", 72), ("no kind", 24), ("purchase", 24)
    ]  # fmt: skip
    assert views["hr"] == views["ndcg"] == pytest.approx(2 / 3)
    assert views["hr_low"] < views["hr"] < views["hr_high"] and views["low"] < views["ndcg"] < views["high"]
    assert purchases["ndcg"] == 1.0 and others["ndcg"] == pytest.approx(1 / np.log2(3))
    (section,) = (each for each in TASK.story(measured).sections if each.title.startswith("New items"))
    (figure,) = (each for each in section.figures if each.title == "Kinds of events")
    assert f"{views['hr']:.3f} <span>({views['hr_low']:.3f} to {views['hr_high']:.3f})" in figure.chart


def test_a_group_of_few_users_has_no_interval() -> None:
    kept = {"user": np.repeat([1, 2], 50), "known_user": np.ones(100, int)}
    (group,) = TASK.measure(replace(scores_of(np.ones(100)), kept=kept), PARAMETERS).metrics["by_user"]
    assert group["low"] is None and group["ndcg"] == 1.0
