"""Scores beside the model's: with changed input, and of baselines without the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.artifacts.reference import publishing_reference
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.metrics import roc_auc
from components.scoring import ExportedModel, open_test_split, score_controls, score_split
from components.scoring.controls import fit_baselines
from components.scoring.signature import Output
from components.tasks import Controlled
from components.tasks.click import TASK, ClickEvaluation
from components.tasks.click.baselines import HistoryBaselines, history_baselines, history_pairs
from components.tasks.click.measure import controls
from tests.binary import probabilities_of
from tests.fakes.object_stores import BUCKET
from tests.fakes.small_histories import FIRST_ID, ITEMS, UNKNOWN, draw, write

Samples = Mapping[str, np.ndarray]
POPULARITY = np.arange(ITEMS)[::-1] ** 2 + 1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    splits = {"train/a": draw(1500, 1), "train/b": draw(1500, 2), "test/a": draw(1200, 3)}
    return write(tmp_path_factory.mktemp("histories") / "tfrecord", splits, counts=POPULARITY)


def model_of(data: Path, score: Callable[[Samples], np.ndarray], *inputs: str) -> ExportedModel:
    """A model that reads these features, by default all."""

    def signature(**features: Any) -> Mapping[str, Any]:
        return {"probability": score({name: value.numpy() for name, value in features.items()})}

    read = inputs or ("uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos")
    return ExportedModel(data, load_feature_spec(data), {}, read, {"probability": Output("float32")}, signature)


def scored(data: Path, model: ExportedModel, batch_size: int = 512, **parameters: int) -> Controlled:
    spec = load_feature_spec(data)
    wanted = controls(spec, ClickEvaluation(**parameters))
    assert wanted is not None
    scores = score_split(spec, model, TASK.kept)
    return score_controls(wanted, spec, model, scores, keep=TASK.kept, tfrecord=data, batch_size=batch_size, lookups={})


def of(found: Controlled, name: str) -> np.ndarray:
    values = found.others[name]
    assert values is not None
    return values


def by_item(samples: Samples) -> np.ndarray:
    return 1 / (1 + np.exp(-np.log(POPULARITY[samples["item_trgt"] - FIRST_ID].astype(float)) + 3))


def alike(samples: Samples) -> np.ndarray:
    return 0.2 + 0.6 * (samples["cat_pos"][:, -1] == samples["cat_trgt"])


def test_a_model_of_popularity_alone_has_the_auc_of_the_popularity_baseline(data: Path) -> None:
    found = scored(data, model_of(data, by_item))
    popularity, labels = of(found, "popularity"), found.model.labels
    assert roc_auc(labels, probabilities_of(found.model)) == pytest.approx(roc_auc(labels, popularity), abs=1e-6)


def test_a_model_that_ignores_histories_and_users_scores_every_change_alike(data: Path) -> None:
    reading = model_of(data, lambda samples: by_item(samples) + 0 * samples["item_pos"].sum(1) + 0 * samples["uid"])
    for model in (model_of(data, by_item, "item_trgt"), reading):
        found = scored(data, model)
        for name in ("other_history", "empty_history", "unknown_user"):
            np.testing.assert_allclose(of(found, name), probabilities_of(found.model), rtol=1e-6)


def test_a_model_of_the_history_is_guessing_without_it(data: Path) -> None:
    found = scored(data, model_of(data, alike))
    labels = found.model.labels
    assert roc_auc(labels, probabilities_of(found.model)) > 0.65
    for name in ("other_history", "empty_history"):
        assert abs(roc_auc(labels, of(found, name)) - 0.5) < 0.06
    np.testing.assert_allclose(of(found, "unknown_user"), probabilities_of(found.model), rtol=1e-6)


def test_the_model_sees_the_id_of_unknown_users_and_padding_alone(data: Path) -> None:
    users = of(scored(data, model_of(data, lambda samples: samples["uid"] / 100)), "unknown_user")
    np.testing.assert_allclose(users, np.full(1200, UNKNOWN / 100, np.float32))
    sums = of(scored(data, model_of(data, lambda samples: samples["item_pos"].sum(1) / 1000)), "empty_history")
    np.testing.assert_array_equal(sums, np.zeros(1200, np.float32))


@pytest.mark.parametrize(("rows", "least", "most"), [(600, 300, 900), (1, 0, 60)])
def test_a_sample_of_groups_has_all_samples_of_each(data: Path, rows: int, least: int, most: int) -> None:
    spec, model = load_feature_spec(data), model_of(data, by_item)
    wanted = controls(spec, ClickEvaluation(control_samples=rows))
    assert wanted is not None
    scores = score_split(spec, model, TASK.kept)
    together = replace(wanted, together="uid")
    found = score_controls(
        together, spec, model, scores, keep=TASK.kept, tfrecord=data, batch_size=512, lookups={}
    ).model
    users, counts = np.unique(found.kept["user"], return_counts=True)
    assert least <= len(found.labels) <= most
    assert counts.tolist() == [np.count_nonzero(scores.kept["user"] == user) for user in users.tolist()]


def test_the_baseline_finds_the_planted_cause(data: Path) -> None:
    found = scored(data, model_of(data, by_item))
    labels, baseline, recency = found.model.labels, of(found, "baseline"), of(found, "recency")
    best = roc_auc(labels, np.asarray(alike(draw(1200, 3))))
    assert roc_auc(labels, baseline) > best - 0.02
    assert roc_auc(labels, recency) > best - 0.02
    assert found.training_samples == 3000


def test_a_part_of_the_split_is_scored_with_its_own_labels(data: Path) -> None:
    found = scored(data, model_of(data, alike), control_samples=400)
    assert {
        len(values) for values in (found.model.labels, probabilities_of(found.model), found.model.kept["user"])
    } == {400}
    assert all(values is not None and len(values) == 400 for values in found.others.values())
    assert roc_auc(found.model.labels, probabilities_of(found.model)) > 0.6


def test_a_model_that_returns_no_numbers_without_a_history_has_no_score_for_it(data: Path) -> None:
    def score(samples: Samples) -> np.ndarray:
        return np.where((samples["item_pos"] > 0).any(1), 0.5, np.nan)

    found = scored(data, model_of(data, score))
    assert found.others["empty_history"] is None
    assert found.others["other_history"] is not None


def test_fitting_reads_nothing_of_the_test_split_and_only_the_first_training_files(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "tfrecord")
    for unread in (copy / "test" / "a", copy / "train" / "b"):
        unread.write_bytes(bytes(unread.stat().st_size))
    with_all, without = (fitted(folder, 1000) for folder in (data, copy))
    samples = draw(50, 9)
    for name, values in with_all.scores(samples).items():
        np.testing.assert_array_equal(values, without.scores(samples)[name])


def fitted(data: Path, samples: int) -> HistoryBaselines:
    spec = load_feature_spec(data)
    baselines = history_baselines(spec)
    assert baselines is not None
    assert fit_baselines(baselines, spec, data, samples) == samples
    return baselines


def test_of_a_reference_only_the_first_training_files_are_fetched(
    data: Path, gcs_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with publishing_reference(f"gs://{BUCKET}/run/tfrecord", tmp_path / "kfp") as folder:
        shutil.copytree(data, folder)
    spec = load_feature_spec(open_test_split(tmp_path / "kfp").path)
    seen: list[Path] = []

    def open_input(*arguments: Any, **named: Any) -> Any:
        artifact = opened(*arguments, **named)
        seen.append(artifact.path)
        return artifact

    from components.scoring import controls as module

    opened = module.open_input
    monkeypatch.setattr(module, "open_input", open_input)
    baselines = history_baselines(spec)
    assert baselines is not None
    assert fit_baselines(baselines, spec, tmp_path / "kfp", 1000) == 1000
    (stage,) = seen
    assert sorted(path.name for path in stage.rglob("*") if path.is_file()) == ["_manifest.json", "a"]
    assert (stage / "train" / "a").is_file()


def test_missing_training_records_are_one_line(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "tfrecord")
    (copy / "train" / "a").unlink()
    spec = load_feature_spec(copy)
    baselines = history_baselines(spec)
    assert baselines is not None
    with pytest.raises(KfrecError, match="train/a"):
        fit_baselines(baselines, spec, copy, 1000)


def test_popularity_is_counted_in_samples_that_are_not_fitted() -> None:
    """A sample's own click would be in its count, and rare items would look clicked for having been clicked."""
    from tests.fakes.small_histories import specification

    spec = replace(specification(), metadata={})
    baselines = HistoryBaselines(spec, history_pairs(spec))
    first, second = draw(500, 1), draw(500, 2)
    baselines.fit(iter([first]), iter([second]))
    counts = np.bincount(first["item_trgt"][first["label"] > 0], minlength=ITEMS + FIRST_ID)
    samples = draw(100, 3)
    np.testing.assert_array_equal(baselines.scores(samples)["popularity"], counts[samples["item_trgt"]])


def test_popularity_is_the_vocabularys_count_where_it_has_one(data: Path) -> None:
    samples = draw(100, 3)
    popularity = fitted(data, 1000).scores(samples)["popularity"]
    order = np.argsort(POPULARITY[samples["item_trgt"] - FIRST_ID], kind="stable")
    assert (np.diff(popularity[order]) >= 0).all()


def test_training_samples_of_one_class_give_no_baseline(tmp_path: Path) -> None:
    clicked = draw(100, 1)
    clicked["label"][:] = 1
    data = write(tmp_path / "tfrecord", {"train/a": clicked, "train/b": clicked, "test/a": draw(100, 3)})
    others = scored(data, model_of(data, alike)).others
    assert set(others) == {"other_history", "empty_history", "unknown_user"}


def test_unknown_users_are_neither_one_cluster_nor_given_one_history(tmp_path: Path) -> None:
    strange = draw(1200, 3)
    strange["uid"][:] = UNKNOWN
    data = write(tmp_path / "tfrecord", {"train/a": draw(500, 1), "train/b": draw(500, 2), "test/a": strange})
    found = scored(data, model_of(data, lambda samples: samples["item_pos"][:, -1] / 100))
    assert len(np.unique(found.model.kept["user"])) > 600
    assert len(np.unique(of(found, "other_history"))) > 30
