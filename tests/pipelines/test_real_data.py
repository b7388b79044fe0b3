"""Real reviews through the whole workflow; the files do not travel with the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipelines.conftest import Run

pytestmark = pytest.mark.slow


def test_a_model_of_real_beauty_reviews_is_promoted(
    real_data: Path, tmp_path: Path, in_process: Callable[..., Run]
) -> None:
    summary = in_process(
        tmp_path,
        *("--source", str(real_data / "amazon_beauty"), "--set", "shortest_sequence_for_user=20"),
        *("--set", "epochs=1", "--set", "train_seed=1", "--set", "bootstrap_samples=100"),
        *("--set", "catalogue_users=20"),
        *("--set", "preprocess_workers=1", "--set", "tfrecord_workers=1"),
    ).summary
    assert summary["steps"]["preprocess"]["counts"]["users"] == 1_248
    assert summary["steps"]["tfrecord"]["rows"] == 79_546 + 2_496
    assert summary["metrics"]["test_auc"] > 0.77
    assert summary["registered"]["alias"] == "champion"
