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
    Check("kubernetes", kubernetes.look),
    Check("pipelines", kfp.look),
    Check("mlflow", mlflow.look),
    Check("object store", object_store.look),
)
# Checks that query the Kubernetes API.
OBJECTS: tuple[Check[Place], ...] = (
    Check("mpijobs", mpijobs.look),
    Check("gang", gang.look),
    Check("settings", mounts.look),
    Check("accounts", accounts.look),
    Check("rights", rights.look),
    Check("images", images.look),
    Check("gpus", gpus.look),
)
