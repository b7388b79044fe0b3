"""Real reviews through the whole workflow; the files do not travel with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.test_end_to_end import kfrec

pytestmark = pytest.mark.slow


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
