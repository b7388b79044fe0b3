"""Defaults of runs on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Of kfrec run, for every model; a model and a data set have more in their local_defaults.
LOCAL_DEFAULTS: Mapping[str, Any] = {"global_batch_size": 1024}
