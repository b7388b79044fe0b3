"""The end of a pipeline run in KFP, told by its exit task.

KFP passes the state of what the exit handler encloses, and not which task failed; the pods of its Argo Workflow say
that. Argo notes the name of a pod's node, such as ``run-x(0).root(0).exit-handler-1(0).train(0).executor(0)``, in an
annotation; the numbers in parentheses count tries. The decision of the gate and the metrics are in the MLflow run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from components.cluster import api
from components.cluster.api import Cluster, Expired, Kind, Refused
from components.errors import KfrecError
from components.notices.notice import FAILED, FINISHED, STOPPED, Notice, tell
from components.secrets import without_password
from components.steps.catalog import STEPS
from components.steps.command import use_mounted_environment
from components.tracking.run import PIPELINE_RUN
from components.tracking.store import connect, missing

# States of a task in KFP's servers: of the API, and of the metadata store that older ones have.
_OUTCOMES = {
    "SUCCEEDED": FINISHED, "COMPLETE": FINISHED, "CACHED": FINISHED, "SKIPPED": FINISHED,
    "CANCELED": STOPPED, "CANCELLED": STOPPED, "CANCELING": STOPPED, "FAILED": FAILED, "ERROR": FAILED,
}  # fmt: skip
_REGISTERED = ("registered_model", "version", "alias", "reason")
_WORKFLOWS = Kind(
    "Workflow", "argoproj.io", "v1alpha1", "workflows", "workflows.argoproj.io/workflow", "the exit task", "kfrec run"
)
_NODE, _CONTAINER = "workflows.argoproj.io/node-name", "main"
_LINES = 20


def tell_end(state: str, workflow: str, pipeline: str, run_id: str) -> None:
    """Sends the notice of a pipeline run.

    Args:
        state: of what the exit handler encloses; one that is not of an end counts as failed if a pod has failed.
        workflow: name of its Argo Workflow.
    """
    use_mounted_environment()
    outcome = _OUTCOMES.get(state.upper(), "")
    failed = failed_step(workflow, STEPS) if outcome in (FAILED, "") else FailedStep()
    outcome = outcome or (FAILED if failed.name else FINISHED)
    registered, metrics = _tracked(run_id)
    message = "" if outcome != FAILED or failed.name else "the failed step is not known"
    tell(Notice(workflow, pipeline, outcome, message, *failed, registered, metrics))


def _tracked(run_id: str) -> tuple[dict[str, str], dict[str, float]]:
    """The gate's decision and the test metrics in the run's MLflow runs, as far as they say so."""
    from mlflow.exceptions import MlflowException

    try:
        client = connect()
        runs = client.search_runs(
            [each.experiment_id for each in client.search_experiments()],
            f"tags.`{PIPELINE_RUN}` LIKE '{run_id}%'",
            order_by=["attributes.start_time DESC"],
        )
    except (MlflowException, KfrecError, *missing()) as error:
        print(f"the decision is not known: {without_password(str(error))}", flush=True)
        return {}, {}
    metrics = {name: value for run in reversed(runs) for name, value in run.data.metrics.items() if name[:5] == "test_"}
    for run in runs:
        if "kfrec.alias" in run.data.tags:
            model, *others = (run.data.tags.get(f"kfrec.{name}", "") for name in _REGISTERED)
            return dict(zip(("model", *_REGISTERED[1:]), (model, *others), strict=True)), metrics
    return {}, metrics


class FailedStep(NamedTuple):
    """A step that failed; empty if none is known."""

    name: str = ""
    log: tuple[str, ...] = ()


def failed_step(workflow: str, steps: Collection[str]) -> FailedStep:
    """The step of a Workflow whose pod failed last."""
    try:
        cluster = api.connect(_WORKFLOWS)
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
