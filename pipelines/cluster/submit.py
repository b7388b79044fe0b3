"""Starts one run on a cluster."""

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
