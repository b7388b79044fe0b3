"""What must not change when a training goes on from a checkpoint."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from components.errors import KfrecError
from components.train.loop.progress import TrainingProgress
from components.train.loop.starts import require_same_run

PROGRESS = TrainingProgress(
    seed=7, global_batch_size=20, steps_per_epoch=5, optimizer="adam", variables=[], average_decay=0.9, step=3
)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (dict(average_decay=0.5), "average_decay 0.9, this run has 0.5"),
        (dict(optimizer="sgd"), "optimizer adam, this run has sgd"),
        (dict(global_batch_size=40), "global_batch_size 20, this run has 40"),
        (dict(validation_rows=12), "number of validation samples 0, this run has 12"),
    ],
)
def test_another_setting_is_one_line(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(KfrecError, match=told):
        require_same_run("ckpt-3", PROGRESS, dataclasses.replace(PROGRESS, **changed), seed=7)


def test_the_same_settings_go_on_and_a_seed_below_zero_takes_the_checkpoints() -> None:
    require_same_run("ckpt-3", PROGRESS, dataclasses.replace(PROGRESS, step=0), seed=-1)
