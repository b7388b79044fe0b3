"""Which step of a pipeline run in KFP has failed, and the last lines of its log, from the pods of its Argo Workflow.

Argo labels a pod with its Workflow and notes the name of its node, such as
``run-x(0).root(0).exit-handler-1(0).train(0).executor(0)``, in an annotation. The numbers in parentheses count tries.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from components.cluster.api import Cluster, Expired, Kind, Refused, connect
from components.errors import KfrecError

_WORKFLOWS = Kind(
    "Workflow", "argoproj.io", "v1alpha1", "workflows", "workflows.argoproj.io/workflow", "the exit task", "kfrec run"
)
_NODE, _CONTAINER = "workflows.argoproj.io/node-name", "main"
_LINES = 20


class FailedStep(NamedTuple):
    """A step that failed; empty if none is known."""

    name: str = ""
    log: tuple[str, ...] = ()


def failed_step(workflow: str, steps: Collection[str]) -> FailedStep:
    """The step of a Workflow whose pod failed last.

    Args:
        workflow: its name.
        steps: their names.
    """
    try:
        cluster = connect(_WORKFLOWS)
        failed = [pod for pod in cluster.pods(workflow) if pod.get("status", {}).get("phase") == "Failed"]
        for pod in reversed(failed):
            if name := _step_of(pod, steps):
                return FailedStep(name, _log(cluster, pod["metadata"]["name"]))
    except (Refused, KfrecError) as error:
        print(f"the failed step is not known: {error}", flush=True)
    return FailedStep()


def _step_of(pod: dict[str, Any], steps: Collection[str]) -> str:
    """The innermost step in the name of a pod's node; a task of a second part of the pipeline has a number after it."""
    parts = pod["metadata"].get("annotations", {}).get(_NODE, "").split(".")
    names = [re.sub(r"(-\d+)?(\(\d+\))?$", "", part) for part in reversed(parts)]
    return next((name for name in names if name in steps), "")


def _log(cluster: Cluster, pod: str) -> tuple[str, ...]:
    """The last lines, without their times."""
    try:
        lines = list(cluster.log(pod, follow=False, tail=_LINES, container=_CONTAINER))
    except (Refused, Expired):
        return ()
    return tuple(line.partition(" ")[2] for line in lines)
