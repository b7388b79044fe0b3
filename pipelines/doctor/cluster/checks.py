"""The checks of a cluster, in display order."""

from __future__ import annotations

from pipelines.doctor.cluster import (
    accounts,
    gang,
    gpus,
    images,
    kfp,
    kubernetes,
    mlflow,
    mounts,
    mpijobs,
    object_store,
    rights,
)
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Check

SERVERS: tuple[Check[Place], ...] = (
    Check("kubernetes", kubernetes.check),
    Check("pipelines", kfp.check),
    Check("mlflow", mlflow.check),
    Check("object store", object_store.check),
)
# Checks that query the Kubernetes API.
OBJECTS: tuple[Check[Place], ...] = (
    Check("mpijobs", mpijobs.check),
    Check("gang", gang.check),
    Check("settings", mounts.check),
    Check("accounts", accounts.check),
    Check("rights", rights.check),
    Check("images", images.check),
    Check("gpus", gpus.check),
)
