"""The synthetic impressions: their distribution, and the best AUC that is promised of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from components.artifacts import adopt
from components.datasets.criteo import Generation
from components.datasets.criteo.synthetic import (
    best_auc,
    draw,
    expected_auc,
    power_law,
    truth_of,
    values_of,
    write_synthetic,
)
from components.feature_spec import load_feature_spec
from components.metrics import roc_auc
from components.steps.catalog import STEPS
from components.steps.command import command
from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.criteo.raw import preprocess

PARAMETERS = STEPS["download"].of(dataset="criteo", synthetic_impressions=1000, synthetic_days=3)


def drawn(parameters: Generation, count: int = 60_000):
    return draw(parameters, truth_of(parameters), 0, 0, count)


def test_the_files_are_read_back_as_they_were_drawn(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    write_synthetic(PARAMETERS, tmp_path / "raw")
    adopt(tmp_path / "raw")
    preprocess(tmp_path / "raw", tmp_path / "out", frequency_threshold=0)
    first = samples(tmp_path / "out", "train")[:333]
    impressions = draw(PARAMETERS, truth_of(PARAMETERS), 0, 0, 333)
    assert [row["label"] for row in first] == impressions.labels.tolist()
    numbers = impressions.integers[:, 4]
    expected = np.where(numbers < 0, 0, np.log(np.maximum(numbers, 0) + 3.0))
    np.testing.assert_allclose([row["int_5"] for row in first], expected, rtol=1e-6)
    missing = impressions.ids[:, 25] < 0
    assert [row["cat_26"] == 0 for row in first] == missing.tolist()


def test_the_same_parameters_give_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    written = []
    for name, parameters in (("a", PARAMETERS), ("b", PARAMETERS), ("c", replace(PARAMETERS, seed=1))):
        (tmp_path / name).mkdir()
        write_synthetic(parameters, tmp_path / name)
        written.append([path.read_bytes() for path in sorted((tmp_path / name).iterdir())])
    assert len(written[0]) == 3
    assert written[0] == written[1]
    assert written[0] != written[2]


def test_ids_follow_the_power_law() -> None:
    # The share of ids up to k is u = ((k + 2)^g - 1) / (K^g - 1), by solving the formula for u.
    uniform = (np.arange(100_000) + 0.5) / 100_000
    ids = power_law(uniform, 99, 1.45)
    assert (ids.min(), ids.max()) == (0, 98)
    for k in (0, 5, 50):
        assert (ids <= k).mean() == pytest.approx(((k + 2) ** -0.45 - 1) / (100**-0.45 - 1), abs=1e-4)


def test_different_ids_have_different_values() -> None:
    assert len(np.unique(values_of(3, np.arange(1_000_000)))) == 1_000_000


def test_the_expected_auc_is_that_of_every_pair() -> None:
    p = np.array([0.1, 0.4, 0.4, 0.9])
    won = [
        p[i] * (1 - p[j]) * (1.0 if p[i] > p[j] else 0.5 if p[i] == p[j] else 0.0) for i in range(4) for j in range(4)
    ]
    assert expected_auc(p) == pytest.approx(sum(won) / (p.sum() * (1 - p).sum()))


def test_the_true_probabilities_reach_the_best_auc() -> None:
    impressions = drawn(PARAMETERS)
    reached = roc_auc(impressions.labels, impressions.probabilities)
    assert reached == pytest.approx(best_auc(PARAMETERS, 200_000), abs=0.005)
    assert 0.75 < reached < 0.85


def test_shuffled_labels_have_nothing_to_do_with_the_features() -> None:
    shuffled = replace(PARAMETERS, synthetic_shuffled_labels=True)
    impressions = drawn(shuffled)
    truth = truth_of(PARAMETERS).probabilities(impressions.integers, impressions.ids)
    assert roc_auc(impressions.labels, truth) == pytest.approx(0.5, abs=0.01)
    assert best_auc(shuffled) == 0.5


def test_power_law_labels_are_fair_coins() -> None:
    coins = replace(PARAMETERS, synthetic_labels="power_law")
    assert drawn(coins).labels.mean() == pytest.approx(0.5, abs=0.01)
    assert best_auc(coins, 100_000) == 0.5


@pytest.mark.slow
def test_the_samples_of_generated_files_know_the_best_auc_and_those_of_other_files_do_not(tmp_path: Path) -> None:
    given = f"--raw={tmp_path / 'raw'}", "--dataset=criteo", "--synthetic_impressions=1000", "--synthetic_days=3"
    assert command("download", given) == 0
    preprocess(tmp_path / "raw", tmp_path / "generated")
    best = load_feature_spec(tmp_path / "generated").best_metrics
    assert best == {"auc": pytest.approx(best_auc(PARAMETERS), abs=0.002)}
    adopt(tmp_path / "raw")
    preprocess(tmp_path / "raw", tmp_path / "fetched")
    assert load_feature_spec(tmp_path / "fetched").best_metrics == {}


def test_with_a_turnover_a_share_of_the_values_is_new_each_day() -> None:
    parameters = replace(PARAMETERS, synthetic_turnover=0.2, synthetic_days=10, synthetic_values=100)
    truth = truth_of(parameters)
    days = [set(draw(parameters, truth, day, 0, 60_000).ids[:, 0].tolist()) for day in (0, 1, 5)]
    assert len(days[1] - days[0]) == pytest.approx(20, abs=2) and not days[2] & days[0] - {-1}
    # Causes are known for the last day's values too, and without a turnover nothing changes.
    assert 0.6 < best_auc(parameters, 60_000) < 0.95
    same = replace(parameters, synthetic_turnover=0.0)
    np.testing.assert_array_equal(
        draw(same, truth_of(same), 5, 0, 99).integers, draw(parameters, truth, 5, 0, 99).integers
    )
