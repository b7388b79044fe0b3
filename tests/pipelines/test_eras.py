"""Users without any preference, who choose uniformly among the items for sale at that moment.

Items are for sale for 300 days of years. There is nothing to learn about a user, so an honest AUC is 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components import registry
from components.download.step import run as download
from components.feature_spec import load_feature_spec
from components.metrics import roc_auc
from components.parameters import build
from components.preprocess.step import run as preprocess
from components.scoring import load_model, score_split
from components.steps.catalog import STEPS
from components.tfrecord.step import run as tfrecord
from tests.train.in_process import run_worker

REVIEWS = {"dataset": "amazon_reviews"}
SEQUENCE_MODELS = [
    name
    for name in registry.names(registry.MODELS)
    if (registry.model(name).dataset, registry.model(name).task) == ("amazon_reviews", "click")
]
Records = Callable[[str], Path]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Records of the era data with a split."""
    folder = tmp_path_factory.mktemp("eras")
    eras = {
        "synthetic_shuffled_labels": True,
        "synthetic_item_lifetime": 300,
        "synthetic_users": 2000,
        "synthetic_items": 500,
    }
    download(build(STEPS["download"].parameters(REVIEWS), eras), raw=folder / "raw")

    def made(split: str) -> Path:
        output = folder / f"{split}-tfrecord"
        if not output.exists():
            sampling: Any = build(STEPS["preprocess"].parameters(REVIEWS), {"split": split, "workers": 1})
            preprocess(sampling, raw=folder / "raw", parquet=folder / split)
            tfrecord(STEPS["tfrecord"].of(workers=1), parquet=folder / split, tfrecord=output)
        return output

    return made


def trained_auc(records: Path, model: str, folder: Path) -> float:
    """The test AUC of a model as published, which learns eras in three epochs if it can."""
    sizes = [
        "--seed=1",
        "--global_batch_size=1024",
        "--epochs=3",
        "--embedding_dim=8",
        "--export_epoch=last",
        "--patience=0",
    ]
    published = ["--dropout_rate=-1", "--repetition=false", "--user_dropout=0", "--average_decay=0"]
    arguments = [f"--model_type={model}", f"--dataset_dir={records}", f"--results_dir={folder}"]
    run_worker([*arguments, *sizes, *published], folder.with_suffix(".log"))
    scores = score_split(load_feature_spec(records), load_model(folder))
    return roc_auc(scores.labels, scores.outputs["probability"])


def test_there_are_sequence_models() -> None:
    assert set(SEQUENCE_MODELS) >= {"sim", "din", "dien"}


@pytest.mark.slow
@pytest.mark.parametrize("model", SEQUENCE_MODELS)
def test_eras_alone_teach_nothing(model: str, records: Records, tmp_path: Path) -> None:
    assert trained_auc(records("time"), model, tmp_path / "model") == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_the_published_protocol_takes_eras_for_preferences(records: Records, tmp_path: Path) -> None:
    assert trained_auc(records("last_item"), "din", tmp_path / "model") > 0.6
