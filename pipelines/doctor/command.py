"""The two modes of ``kfrec doctor``; each returns an exit status: 0, or 1 if a prerequisite is missing."""

from __future__ import annotations

from pathlib import Path

from pipelines.doctor.examination import examine, line
from pipelines.doctor.finding import note
from pipelines.task_settings import ClusterSettings


def examine_machine(workdir: Path, debug: bool = False) -> int:
    """Checks this machine for ``kfrec run``.

    Args:
        workdir: folder of runs.
        debug: show the traceback of a failed check.
    """
    from pipelines.doctor.machine.checks import CHECKS
    from pipelines.doctor.machine.place import Machine

    return _concluded(examine(CHECKS, Machine(workdir), debug), "kfrec run can work here")


def examine_cluster(settings: ClusterSettings, debug: bool = False, **asked: str) -> int:
    """Checks a cluster for ``kfrec submit``.

    Args:
        settings: of the steps.
        debug: show the traceback of a failed check.
        asked: see :func:`pipelines.doctor.cluster.place.gather`.
    """
    try:
        from pipelines.doctor.cluster.checks import OBJECTS, SERVERS
        from pipelines.doctor.cluster.place import environment_of, gather
    except ModuleNotFoundError as error:
        if error.name != "kubernetes":
            raise
        from components.errors import KfrecError

        raise KfrecError(
            "kfrec doctor --cluster needs the package kubernetes; install kfrec with the extra kubernetes"
        ) from None

    place = gather(settings, **asked)
    with environment_of(place):
        checks = (*SERVERS, *OBJECTS) if place.kubernetes else SERVERS
        lacking = examine(checks, place, debug)
    if place.kubernetes is None:
        unseen = ", ".join(check.subject for check in OBJECTS)
        print(line("others", note(f"not checked without the Kubernetes API: {unseen}")))
    return _concluded(lacking, "kfrec submit can work there")


def _concluded(lacking: int, fine: str) -> int:
    print(f"\n{fine}" if not lacking else f"\n{lacking} missing: see the remedies above")
    return 1 if lacking else 0
