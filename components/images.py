"""Which container image runs a step on a cluster."""

from __future__ import annotations

VERSION = "0.1.0"
# The environment variable with the registry of the images.
REGISTRY = "KFREC_REGISTRY"

# The steps that need a GPU toolchain have their own images; the others share a slim one.
_IMAGE_OF_STEP = {"preprocess": "kfrec-preprocess"}
_SLIM = "kfrec-cpu"
# The pods of an MPIJob, which the train step starts.
WORKER_IMAGE = f"kfrec-train:{VERSION}"


def image(step: str, registry: str = "") -> str:
    """The image of a step.

    Args:
        step: its name.
        registry: prefix of the image's name, host and path, such as ``registry.example.org/team``.
    """
    name = f"{_IMAGE_OF_STEP.get(step, _SLIM)}:{VERSION}"
    return f"{registry.rstrip('/')}/{name}" if registry else name
