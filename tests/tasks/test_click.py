"""AUC by popularity and by category of the task click."""

import dataclasses
import re

import numpy as np
import pytest

from components.feature_spec import Channel, Feature, FeatureSpec
from components.tasks import Measured, Scores, kept_features
from components.tasks.click import TASK
from components.tasks.click.measure import CATEGORIES, group_series, measure_groups
from components.tasks.report import ADMITTED, popularity_bounds
from tests.binary import binary_scores, probabilities_of


def scores(categories: np.ndarray, labels: np.ndarray | None = None) -> Scores:
    random = np.random.default_rng(1)
    rows = len(categories)
    probabilities = random.random(rows, dtype=np.float32)
    drawn = (random.random(rows) < probabilities).astype(np.int8)
    kept = {"category": categories, "popularity": random.integers(0, 50, rows), "user": np.arange(rows)}
    names = {"category": {1: "Skin/<Care>", 2: "Hair"}}
    return binary_scores(drawn if labels is None else labels, probabilities, kept, names)


def report(measured: Measured) -> dict[str, str]:
    """The charts of the section on groups, by title."""
    (section,) = (each for each in TASK.story(measured).sections if each.title == "Groups of samples")
    return {figure.title: figure.chart for figure in section.figures}


def test_popularity_groups_have_about_equally_many_samples_and_those_of_no_history_are_apart() -> None:
    values = np.concatenate([np.zeros(50, int), np.arange(1, 1001)])
    bounds = popularity_bounds(values)
    sizes = np.bincount(np.searchsorted(bounds, values, side="left"))
    assert sizes[0] == 50 and len(sizes) == 6
    assert abs(sizes[1:] - 200).max() <= 2


@pytest.mark.parametrize("values", [np.zeros(5, int), np.full(5, 7)])
def test_samples_of_one_popularity_are_one_group(values: np.ndarray) -> None:
    given = scores(np.ones(5, int))
    groups = measure_groups(binary_scores(given.labels, probabilities_of(given), {"popularity": values}))[
        "by_popularity"
    ]
    assert [(group["from"], group["to"], group["rows"]) for group in groups] == [(values[0], values[0], 5)]


def test_categories_with_most_samples_are_named_and_the_others_pooled() -> None:
    random = np.random.default_rng(2)
    given = scores(np.repeat(np.arange(1, 31), np.arange(60, 30, -1))[random.permutation(1365)])
    groups = TASK.measure(given, None).metrics["by_category"]
    assert [group["category"] for group in groups[:3]] == ["Skin/<Care>", "Hair", "id 3"]
    assert (groups[-1]["category"], groups[-1]["pooled"]) == ("others", 30 - CATEGORIES)
    assert sum(group["rows"] for group in groups) == 1365
    table = report(TASK.measure(given, None))["AUC by category of the candidate"]
    assert "<td>Skin/&lt;Care&gt;</td><td>60</td>" in table and "<td>18 others</td>" in table


def test_samples_with_newly_admitted_ids_are_apart_from_all_others() -> None:
    given = scores(np.ones(500, int))
    assert "by_new_ids" not in measure_groups(given)
    kept = {**given.kept, ADMITTED: (np.arange(500) % 4 == 0).astype(np.int8)}
    measured = TASK.measure(dataclasses.replace(given, kept=kept), None)
    new, others = measured.metrics["by_new_ids"]
    assert (new["category"], new["rows"]) == ("with newly admitted ids", 125)
    assert (others["category"], others["rows"]) == ("all others", 375)
    assert "<td>with newly admitted ids</td><td>125</td>" in report(measured)["AUC on newly admitted ids"]
    assert "auc_by_new_ids/all others" in measured.series


def test_small_groups_and_those_of_one_class_say_so_and_show_no_auc() -> None:
    categories = np.repeat([1, 2, 3, 4], [200, 12, 40, 40])
    labels = np.concatenate([np.arange(212) % 2, np.ones(40), np.zeros(40)]).astype(np.int8)
    given = scores(categories, labels)
    rows = re.findall("<tr>(.*?)</tr>", report(TASK.measure(given, None))["AUC by category of the candidate"])
    told = [re.findall("<td>(.*?)</td>", row)[3] for row in rows[1:]]
    assert re.fullmatch(r"0\.\d{3}", told[0]) and told[1:] == ["all clicked", "none clicked", "too few"]


def test_mlflow_has_a_point_for_each_range_and_a_name_for_each_category() -> None:
    groups = measure_groups(scores(np.repeat([1, 2, 3], [300, 200, 5])))
    series = group_series(groups)
    steps = [group["to"] for group in groups["by_popularity"] if group["low"] is not None]
    assert len(steps) >= 5
    assert [step for step, _ in series["auc_by_popularity/low"]] == steps
    by_category = {name: points for name, points in series.items() if name.startswith("auc_by_category/")}
    assert set(by_category) == {"auc_by_category/Skin_<Care>", "auc_by_category/Hair"}  # the third is too small


def test_columns_that_the_data_cannot_have_are_left_out() -> None:
    features = {
        "label": Feature("label", "bool"),
        "item": Feature("item", "int64", 9),
        "price": Feature("price", "float32"),
        "seen": Feature("seen", "int64", 9, 4),
    }
    without_history = {Channel.LABEL: ("label",), Channel.TARGET: ("item", "price")}
    spec = FeatureSpec(features, {}, without_history)
    assert kept_features(spec, TASK.kept) == {}
    spec = FeatureSpec(features, {}, {**without_history, Channel.POSITIVE: ("seen",)})
    found = {column.name: feature for column, feature in kept_features(spec, TASK.kept).items()}
    assert found == {"history_length": "seen", "popularity": "item"}
    assert "popularity" not in {column.name for column in TASK.streamed}
