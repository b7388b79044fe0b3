"""Real reviews through the whole workflow; the files do not travel with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.test_end_to_end import kfrec

pytestmark = pytest.mark.slow


def test_raw_reviews_as_published_run_to_the_end(real_data: Path, tmp_path: Path) -> None:
    # 27 users wrote 20 reviews or more: enough to run every step, not enough to judge a model by.
    summary = kfrec(
        tmp_path,
        *("--source", str(real_data / "amazon_digital_music")),
        *("--set", "global_batch_size=256", "--set", "epochs=1"),
    ).summary
    assert summary["steps"]["preprocess"]["counts"]["users"] == 27
    assert summary["steps"]["preprocess"]["counts"]["reviews"] == 828
    assert summary["steps"]["evaluate"]["rows"] == 54


def test_a_model_of_real_beauty_reviews_is_promoted(real_data: Path, tmp_path: Path) -> None:
    summary = kfrec(
        tmp_path,
        *("--source", str(real_data / "amazon_beauty"), "--set", "shortest_sequence_for_user=10"),
        *("--set", "epochs=1", "--set", "train_seed=1"),
    ).summary
    assert summary["steps"]["preprocess"]["counts"]["users"] == 5_123
    assert summary["steps"]["tfrecord"]["rows"] == 163_156 + 10_246
    assert summary["metrics"]["test_auc"] > 0.77
    assert summary["registered"]["alias"] == "champion"
