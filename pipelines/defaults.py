"""Defaults that depend on where a pipeline runs; the catalog's own are those of a training on GPUs."""

from __future__ import annotations

from typing import Any

# A laptop wants smaller steps.
LOCAL_DEFAULTS: dict[str, Any] = {"global_batch_size": 1024}
CLUSTER_DEFAULTS: dict[str, Any] = {"launcher": "mpijob"}
