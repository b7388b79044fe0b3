"""The pipelines, and defaults that depend on where one runs; the catalog's own are those of a training on GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.steps.catalog import STEPS

TRAINING, RETRAINING = "training", "retraining"
# The steps of each pipeline, in order.
PIPELINES: Mapping[str, tuple[str, ...]] = {
    TRAINING: tuple(name for name in STEPS if name != "find"),
    RETRAINING: tuple(STEPS),
}
# What the find step decides, so that no one else can.
FOUND = tuple(name for name in STEPS["find"].results if name != "proceed")

# A laptop wants smaller steps.
LOCAL_DEFAULTS: dict[str, Any] = {"global_batch_size": 1024}
CLUSTER_DEFAULTS: dict[str, Any] = {"launcher": "mpijob"}
# Between two versions of the same data few items are new; more than this, and the old vocabulary would hide them.
PIPELINE_DEFAULTS: Mapping[str, dict[str, Any]] = {TRAINING: {}, RETRAINING: {"out_of_vocabulary_limit": 0.05}}
