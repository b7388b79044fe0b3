"""The pipelines, and their defaults by place; the catalog's defaults are for training on GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from components import registry
from components.steps.catalog import STEPS

TRAINING, RETRAINING = "training", "retraining"
MODEL = "sim"
# The steps of each kind of pipeline, in order.
PIPELINES: Mapping[str, tuple[str, ...]] = {
    TRAINING: tuple(name for name in STEPS if name != "find"),
    RETRAINING: tuple(STEPS),
}


class Pipeline(NamedTuple):
    """A pipeline; every model has one of each kind.

    Attributes:
        kind: one of PIPELINES.
        model: name of the model.
    """

    kind: str = TRAINING
    model: str = MODEL

    @property
    def name(self) -> str:
        """The name of its file, such as ``sim-training``."""
        return f"{self.model.replace('_', '-')}-{self.kind}"

    @property
    def kfp_name(self) -> str:
        """Its name in KFP."""
        return f"kfrec-{self.name}"

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps, in order."""
        return PIPELINES[self.kind]


def every_pipeline() -> list[Pipeline]:
    """Those of all models that are installed."""
    return [Pipeline(kind, model) for model in registry.names(registry.MODELS) for kind in PIPELINES]


# Parameters that the find step sets, so that the user cannot.
FOUND = tuple(name for name in STEPS["find"].results if name != "proceed")


def local_defaults(model: str) -> dict[str, Any]:
    """Of a run on this machine: smaller batches for a laptop, and what else the model prefers there."""
    return {"global_batch_size": 1024, **registry.model(model).local_defaults}


CLUSTER_DEFAULTS: dict[str, Any] = {"launcher": "mpijob"}
# Two versions of the same data share most items; with more new items than this, the old vocabulary would hide them.
PIPELINE_DEFAULTS: Mapping[str, dict[str, Any]] = {TRAINING: {}, RETRAINING: {"out_of_vocabulary_limit": 0.05}}
