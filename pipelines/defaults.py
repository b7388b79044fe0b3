"""The pipelines' names, and defaults that depend on where one runs; the catalog's own are those of a GPU training."""

from __future__ import annotations

from typing import Any

# A laptop wants smaller steps.
LOCAL_DEFAULTS: dict[str, Any] = {"global_batch_size": 1024}
CLUSTER_DEFAULTS: dict[str, Any] = {"launcher": "mpijob"}

PIPELINES = ("training",)
