"""Gang schedulers and queues, if the settings of MPIJobs request one."""

from __future__ import annotations

from collections.abc import Iterator

from components.cluster.api import Refused
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, missing, note, ok

_KUEUE, _QUEUES, _CURRENT = "kueue.x-k8s.io", "localqueues", "v1beta2"
_VOLCANO = "volcano"
# Group and version of mpi-operator's PodGroups, by its option --gang-scheduling.
_POD_GROUPS = {True: ("scheduling.volcano.sh", "v1beta1"), False: ("scheduling.x-k8s.io", "v1alpha1")}


def check(place: Place) -> Iterator[Finding]:
    if place.job.queue:
        yield _queue(place, place.job.queue)
    if place.job.scheduler or place.job.scheduling_policy:
        yield _pod_groups(place)


def _queue(place: Place, name: str) -> Finding:
    served = place.api.served(_KUEUE, _QUEUES)
    asked = f"queue {name} of mpijob.yaml"
    if not served:
        return missing(f"{asked}: Kueue is not installed", "install Kueue 0.15 or later, or leave out queue")
    version = _CURRENT if _CURRENT in served else served[0]
    path = f"/apis/{_KUEUE}/{version}/namespaces/{place.job_namespace}/{_QUEUES}/{name}"
    try:
        if place.api.get(path) is None:
            return missing(
                f"{asked}: no LocalQueue of that name in {place.job_namespace}",
                "add the component kueue, or correct queue",
            )
    except Refused as no:
        return note(f"{asked}: may not be looked up ({no.status}); Kueue serves {', '.join(served)}")
    if _CURRENT not in served:
        return note(
            f"{asked}: is there; Kueue serves {', '.join(served)}, not {_CURRENT}",
            f"write {served[0]} in components/kueue/queue.yaml, or upgrade to 0.15",
        )
    return ok(f"{asked}: is there; Kueue serves {', '.join(served)}")


def _pod_groups(place: Place) -> Finding:
    scheduler = place.job.scheduler or "the cluster's scheduler"
    group, version = _POD_GROUPS[place.job.scheduler == _VOLCANO]
    served = place.api.served(group, "podgroups")
    asked = f"gangs by {scheduler}"
    if not served:
        return missing(
            f"{asked}: no podgroups.{group}", f"install {scheduler}, or leave scheduler and scheduling_policy out"
        )
    if version not in served:
        return missing(f"{asked}: podgroups.{group} serves {', '.join(served)}", f"mpi-operator needs {version}")
    return ok(f"{asked}: podgroups.{group} serves {version}; mpi-operator needs --gang-scheduling for it")
