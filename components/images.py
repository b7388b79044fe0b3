"""Which container image runs a step on a cluster."""

from __future__ import annotations

VERSION = "0.1.0"
# The environment variable with the registry of the images.
REGISTRY = "KFREC_REGISTRY"

# Every step, the kfrec command and the MLflow server.
STEP_IMAGE = f"kfrec-cpu:{VERSION}"
# The pods of an MPIJob, which the train step starts.
WORKER_IMAGE = f"kfrec-train:{VERSION}"


def step_image(registry: str = "") -> str:
    """The image of a step.

    Args:
        registry: prefix of the image's name, host and path, such as ``registry.example.org/team``.
    """
    return f"{registry.rstrip('/')}/{STEP_IMAGE}" if registry else STEP_IMAGE
