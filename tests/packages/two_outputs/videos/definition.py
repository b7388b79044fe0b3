"""The model video: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import FeatureSpec
from components.models import Model, ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer
from components.parameters import param


@dataclass(frozen=True)
class VideoParameters(OneOptimizer):
    """Its optimizer, a size, and the balance of its losses."""

    video_width: int = param(4, "Width of an embedding", unit="floats", at_least=1)
    seconds_weight: float = param(0.01, "Weight of the squared error of the seconds beside the click", at_least=0)


def _build(parameters: VideoParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from videos.model import Video

    return Video(parameters, spec, seed)


MODEL = ModelDefinition(
    name="video",
    title="Video",
    summary="A click and three watch times from one embedding of user and video.",
    parameters=VideoParameters,
    build=_build,
    optimizers=one_optimizer,
    dataset="videos",
    task="watching",
    defaults={"epochs": 3, "global_batch_size": 200, "lr": 0.05},
)
