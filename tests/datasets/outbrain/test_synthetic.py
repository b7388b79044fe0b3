"""Synthetic displays hold what was planted, and the best scores on them are those of the true probabilities."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.artifacts import open_artifact
from components.datasets.outbrain.best_scores import best_scores, main
from components.datasets.outbrain.raw_files import FIELDS
from components.datasets.outbrain.synthetic import REGIONS, draw_displays, make_world
from components.download.step import run
from components.steps.catalog import STEPS
from tests.datasets.outbrain.raw import preprocess, samples


def parameters(**values: Any) -> Any:
    return STEPS["download"].of(dataset="outbrain", **values)


@cache
def files(**values: Any) -> dict[str, pd.DataFrame]:
    with TemporaryDirectory() as folder:
        run(parameters(**values), raw=Path(folder) / "raw")
        return {
            name: pd.read_csv(Path(folder) / "raw" / f"{name}.csv.gz", na_values=["\\N"], keep_default_na=False)
            for name in FIELDS
        }


def sampling(**values: Any) -> Any:
    return STEPS["preprocess"].of(dataset="outbrain", **values)


def test_a_display_has_two_to_twelve_different_ads_and_one_click() -> None:
    displays = files()["clicks_train"].groupby("display_id")
    assert (displays["clicked"].sum() == 1).all()
    assert (displays["ad_id"].nunique() == displays.size()).all()
    assert (displays.size().min(), displays.size().max()) == (2, 12)
    assert 4.8 < displays.size().mean() < 5.6


def test_every_display_has_an_event_and_every_ad_and_document_a_description() -> None:
    data = files()
    assert sorted(data["events"]["display_id"]) == sorted(data["clicks_train"]["display_id"].unique())
    assert set(data["clicks_train"]["ad_id"]) <= set(data["promoted_content"]["ad_id"])
    documents = set(data["documents_meta"]["document_id"])
    assert set(data["events"]["document_id"]) | set(data["promoted_content"]["document_id"]) <= documents


def test_some_values_are_missing_as_in_the_public_files() -> None:
    data = files()
    for name, column in (("events", "geo_location"), ("documents_meta", "source_id"),
                         ("documents_meta", "publisher_id"), ("documents_meta", "publish_time")):  # fmt: skip
        assert 0 < data[name][column].isna().mean() < 0.2, column


def test_days_go_from_0_to_12() -> None:
    day = files()["events"]["timestamp"] // 86_400_000
    assert sorted(day.unique()) == list(range(13))
    assert day.is_monotonic_increasing


def test_the_place_of_an_ad_in_its_display_says_nothing() -> None:
    clicks = files()["clicks_train"].assign(place=lambda rows: rows.groupby("display_id").cumcount())
    of_six = clicks[clicks.groupby("display_id")["ad_id"].transform("size") == 6]
    rate = of_six.groupby("place")["clicked"].mean()
    deviation = np.sqrt(1 / 6 * 5 / 6 / (len(of_six) / 6))
    assert (abs(rate - 1 / 6) < 4 * deviation).all()


def test_an_ad_of_the_pages_topic_is_clicked_more_often() -> None:
    data = files()
    topics = data["documents_topics"]
    first = topics[topics["confidence_level"] == 0.8].set_index("document_id")["topic_id"]
    rows = data["clicks_train"].merge(data["events"], on="display_id")
    rows = rows.merge(data["promoted_content"], on="ad_id", suffixes=("", "_promo"))
    match = rows["document_id"].map(first) == rows["document_id_promo"].map(first)
    assert rows["clicked"][match].mean() > 2 * rows["clicked"][~match].mean()


def test_labels_follow_the_softmax_of_the_utilities() -> None:
    drawn = next(draw_displays(parameters(), make_world(parameters())))
    chance = np.where(drawn.shown, np.exp(drawn.utility), 0.0)
    chance /= chance.sum(axis=1, keepdims=True)
    clicked = np.arange(12) == drawn.clicked[:, None]
    bins = (chance[drawn.shown] * 10).astype(int)
    for number in range(8):
        inside = bins == number
        expected, found = chance[drawn.shown][inside].mean(), clicked[drawn.shown][inside].mean()
        assert found == pytest.approx(expected, abs=4 * np.sqrt(expected / inside.sum())), number


def test_the_utility_is_quality_topic_and_place() -> None:
    world = make_world(parameters())
    page, ad = 0, int(np.flatnonzero(world.ad_topic == world.page_topic[0])[0])
    liking = int(np.flatnonzero(world.likes[:REGIONS, world.ad_topic[ad]])[0])
    indifferent = int(np.flatnonzero(~world.likes[:REGIONS, world.ad_topic[ad]])[0])
    found = world.utility(np.array([[ad], [ad]]), np.array([page, page]), np.array([liking, indifferent]))
    assert found.ravel() == pytest.approx([world.quality[ad] + 2.6, world.quality[ad] + 1.6])


def test_every_place_likes_as_many_topics_and_every_topic_is_liked_as_often() -> None:
    likes = make_world(parameters()).likes
    assert set(likes[:REGIONS].sum(axis=1)) == {3}
    assert len(set(likes[:REGIONS].sum(axis=0))) == 1
    assert not likes[REGIONS].any()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    run(parameters(synthetic_displays=4000), raw=folder / "raw")
    preprocess(folder / "raw", folder / "parquet")
    return folder


def scores_by_hand(rows: pd.DataFrame, score: np.ndarray) -> tuple[float, float]:
    """MAP@12 with ties in the order of rows, and AUC, the long way."""
    rows = rows.assign(score=score)
    precision = []
    for _, display in rows.groupby("display_id"):
        ranked = display.sort_values("score", ascending=False, kind="stable")["clicked"].tolist()[:12]
        precision.append(1 / (ranked.index(1) + 1) if 1 in ranked else 0.0)
    return float(np.mean(precision)), auc_by_hand(rows["clicked"], rows["score"])


def auc_by_hand(labels: pd.Series, scores: pd.Series) -> float:
    """The share of pairs of a click and another row that are in order, ties as halves."""
    one, zero = (np.sort(scores[labels == label]) for label in (1, 0))
    below = np.searchsorted(zero, one, "left").sum() + np.searchsorted(zero, one, "right").sum()
    return float(below / 2 / len(one) / len(zero))


def test_the_best_scores_are_those_of_the_true_utilities_on_the_test_samples(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(made / "parquet")]) == 0
    best = json.loads(capsys.readouterr().out)
    rows = samples(made / "parquet", "test")
    generation = parameters(synthetic_displays=4000)
    world = make_world(generation)
    utility: dict[tuple[int, int], float] = {}
    for drawn in draw_displays(generation, world):
        row, column = np.nonzero(drawn.shown)
        numbers = world.ad_number[drawn.ads[row, column]]
        utility |= dict(zip(zip(drawn.number[row], numbers, strict=True), drawn.utility[row, column], strict=True))
    score = np.array([utility[pair] for pair in zip(rows["display_id"], rows["ad_id"] - 1, strict=True)])
    expected = scores_by_hand(rows, score)
    assert (best["map_at_12"], best["auc"]) == pytest.approx(expected, abs=1e-5)
    assert (best["rows"], best["displays"]) == (len(rows), rows["display_id"].nunique())


def test_there_is_much_to_learn_beyond_chance() -> None:
    best, chance = (
        best_scores(parameters(synthetic_shuffled_labels=shuffled), sampling()) for shuffled in (False, True)
    )
    assert best["map_at_12"] > chance["map_at_12"] + 0.1
    assert 0.7 < best["auc"] < 0.8


def test_no_feature_tells_shuffled_labels(tmp_path: Path) -> None:
    run(parameters(synthetic_shuffled_labels=True, synthetic_displays=20_000), raw=tmp_path / "raw")
    preprocess(tmp_path / "raw", tmp_path / "parquet")
    rows = samples(tmp_path / "parquet", "test")
    for name in rows.select_dtypes("float32"):
        assert auc_by_hand(rows["clicked"], rows[name]) == pytest.approx(0.5, abs=0.02), name


def test_the_best_on_shuffled_labels_is_chance() -> None:
    best = best_scores(parameters(synthetic_shuffled_labels=True), sampling())
    assert best["auc"] == 0.5
    sizes = files(synthetic_shuffled_labels=True)["clicks_train"].groupby("display_id").size()
    expected = np.mean([(1 / np.arange(1, size + 1)).mean() for size in sizes])
    assert best["map_at_12"] == pytest.approx(expected, abs=0.01)


def test_the_same_parameters_give_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(parameters(synthetic_displays=500, seed=seed), raw=tmp_path / name)
    a, b, c = (open_artifact(tmp_path / name).digest for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize("sizes", [dict(displays=1, ads=24, documents=1), dict(displays=200, ads=24, documents=3)])
def test_the_smallest_sizes_work(sizes: dict[str, int], tmp_path: Path) -> None:
    counts = run(parameters(**{f"synthetic_{name}": value for name, value in sizes.items()}), raw=tmp_path / "raw")
    assert counts["clicks"] >= 2 * sizes["displays"]


def test_other_data_has_no_best_scores(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(made / "raw")]) == 2
    assert "not made of synthetic displays of outbrain" in capsys.readouterr().err
    assert main([]) == 2
