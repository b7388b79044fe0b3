"""Which container image runs a step on a cluster."""

from __future__ import annotations

import os

VERSION = "0.1.0"
REGISTRY_VARIABLE = "KFREC_REGISTRY"

# The steps that need a GPU toolchain have images of their own; the others share a slim one.
_IMAGE_OF_STEP = {"preprocess": "kfrec-preprocess"}
_SLIM = "kfrec-cpu"


def image(step: str) -> str:
    """The image of a step, under the registry that KFREC_REGISTRY names when the pipeline is compiled."""
    registry = os.environ.get(REGISTRY_VARIABLE, "").rstrip("/")
    name = f"{_IMAGE_OF_STEP.get(step, _SLIM)}:{VERSION}"
    return f"{registry}/{name}" if registry else name
