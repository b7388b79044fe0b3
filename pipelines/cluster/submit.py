"""Starts and follows one run on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from pipelines.cluster.connection import explained, may_pass, namespace_of
from pipelines.cluster.parameters import checked_for_cluster
from pipelines.cluster.versions import ensure_version
from pipelines.defaults import Pipeline

if TYPE_CHECKING:
    from kfp import Client

ENDED = {"SUCCEEDED": 0, "SKIPPED": 0, "FAILED": 1, "CANCELED": 1}


@dataclass(frozen=True)
class Submission:
    """What to run and how.

    Attributes:
        ir: the compiled pipeline.
        pipeline: its definition's name and choices.
        values: pipeline parameters by name, unchecked.
        experiment: KFP experiment, created if it does not exist.
        name: of the run; empty is pipeline and time.
        pipeline_root: where artifacts go; empty is the cluster's default.
        service_account: of the steps; empty is the cluster's default.
    """

    ir: str
    pipeline: Pipeline
    values: Mapping[str, Any]
    experiment: str = "kfrec"
    name: str = ""
    pipeline_root: str = ""
    service_account: str = ""


def submit(client: Client, host: str, wanted: Submission, echo: Callable[[str], None] = print) -> str:
    """Starts a run and returns its identifier.

    Raises:
        KfrecError: a bad parameter, or KFP refuses or does not answer.
    """
    from kfp_server_api import ApiException
    from urllib3.exceptions import HTTPError

    values = checked_for_cluster(wanted.values, wanted.pipeline)
    with explained(host):
        version = ensure_version(client, wanted.ir)
        echo(f"pipeline {version.pipeline}, version {version.name}{' (uploaded)' if version.is_new else ''}")
        experiment = client.create_experiment(wanted.experiment, namespace=namespace_of(client))
        try:
            run = client.run_pipeline(
                experiment.experiment_id,
                wanted.name or f"{version.pipeline} {time.strftime('%Y-%m-%d %H:%M:%S')}",
                pipeline_id=version.pipeline_id,
                version_id=version.version_id,
                params=values,
                pipeline_root=wanted.pipeline_root or None,
                service_account=wanted.service_account or None,
            )
        except (ApiException, HTTPError) as error:
            if not may_pass(error):
                raise
            # A blind retry might train twice.
            raise KfrecError(f"{host}: no answer; the run may have started, look at {host}/#/runs first") from None
    echo(f"{host}/#/runs/details/{run.run_id}")
    return str(run.run_id)


def follow(
    client: Client,
    host: str,
    run_id: str,
    timeout: float,
    pause: float = 5.0,
    echo: Callable[[str], None] = print,
    patience: float = 600.0,
) -> int:
    """Reports the state changes of a run and its steps until it ends; returns 0 if it succeeded, else 1.

    Args:
        client: of KFP.
        host: its address, for messages.
        run_id: KFP's identifier.
        timeout: seconds to wait for the end.
        pause: polling interval in seconds.
        echo: called with each line for the user.
        patience: seconds without an answer from KFP before this gives up; the run itself continues.

    Raises:
        KfrecError: not ended after ``timeout`` seconds, or KFP does not answer for ``patience`` seconds.
    """
    from kfp_server_api import ApiException
    from urllib3.exceptions import HTTPError

    until = time.monotonic() + timeout
    answered = time.monotonic()
    seen: dict[str, str] = {}
    while True:
        with explained(host):
            try:
                run = client.get_run(run_id)
            except (ApiException, HTTPError) as error:
                if not may_pass(error) or time.monotonic() > min(answered + patience, until):
                    raise
                time.sleep(pause)
                continue
        answered = time.monotonic()
        tasks = (run.run_details.task_details if run.run_details else None) or ()
        for task in tasks:
            # KFP lists its drivers and the pipeline itself among the tasks.
            if task.display_name.endswith("-driver") or task.display_name in ("root", "executor"):
                continue
            if seen.get(task.display_name) != task.state:
                seen[task.display_name] = task.state
                echo(f"{task.display_name}: {(task.state or 'PENDING').lower()}")
        if run.state in ENDED:
            failed = [name for name, state in seen.items() if state == "FAILED"]
            why = f" in {', '.join(failed)}" if failed else ""
            message = f": {run.error.message}" if run.error and run.error.message else ""
            echo(f"run {run.state.lower()}{why}{message}")
            return ENDED[run.state]
        if time.monotonic() > until:
            raise KfrecError(
                f"run {run_id} has not ended after {timeout:g} s; it continues at {host}/#/runs/details/{run_id}"
            )
        time.sleep(pause)
