"""Checks of a cluster for ``kfrec submit``."""

from __future__ import annotations

from pipelines.doctor.cluster import objects, servers
from pipelines.doctor.cluster.examined import Examined, environment_of, gather
from pipelines.doctor.examination import Check, Finding, examine, note
from pipelines.task_settings import ClusterSettings

SERVERS: tuple[Check[Examined], ...] = (
    Check("kubernetes", objects.kubernetes),
    Check("pipelines", servers.pipelines),
    Check("mlflow", servers.mlflow),
    Check("object store", servers.object_store),
)
# Checks that query the Kubernetes API.
OBJECTS: tuple[Check[Examined], ...] = (
    Check("mpijobs", objects.mpijobs),
    Check("settings", objects.settings),
    Check("accounts", objects.accounts),
    Check("rights", objects.rights),
    Check("gpus", objects.gpus),
)


def examine_cluster(settings: ClusterSettings, debug: bool = False, **asked: str) -> int:
    """Checks a cluster; returns the exit status.

    Args:
        asked: see ``pipelines.doctor.cluster.examined.gather``.
    """
    examined = gather(settings, **asked)
    checks = (*SERVERS, *OBJECTS) if examined.kubernetes else (*SERVERS, Check("others", _others))
    with environment_of(examined):
        return examine(checks, examined, "kfrec submit can work there", debug)


def _others(examined: Examined) -> list[Finding]:
    unseen = ", ".join(check.subject for check in OBJECTS)
    return [note(f"not checked without the Kubernetes API: {unseen}")]
