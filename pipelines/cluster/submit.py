"""Starts one run on a cluster, with checked parameters.

A pipeline is uploaded as a new version if its content is new; otherwise the version with this content is used again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.secrets import without_passwords
from components.tracking.champion import require_task_early
from components.tracking.store import tracking_uri
from pipelines.chain import Chain, chain_inputs, divided, joined
from pipelines.cluster.connection import explained, may_pass, namespace_of, pages, status_of
from pipelines.cluster.progress import ENDED
from pipelines.defaults import LARGE, Pipeline, cluster_defaults
from pipelines.form import pipeline_inputs
from pipelines.parameters import checked, pipeline_parameters

if TYPE_CHECKING:
    from kfp import Client
import functools
import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from pipelines.compilation import version_name

if TYPE_CHECKING:
    from kfp import Client


_TIME = "%Y-%m-%d %H:%M:%S"
# Characters of a name and of a description in the tables of KFP 2.17, which answers 500 to longer ones.
NAME, DESCRIPTION = 191, 255


@dataclass(frozen=True)
class Submission:
    """What to run and how.

    Attributes:
        pipeline: its definition's name and choices.
        values: pipeline parameters by name, of ``checked_for_cluster``.
        experiment: KFP experiment, created if it does not exist.
        name: of the run; empty is schedule, or else pipeline, and time.
        schedule: that starts the run; empty is none.
        pipeline_root: where artifacts go; empty is the cluster's default.
        service_account: of the steps; empty is the cluster's default.
    """

    ir: str
    pipeline: Pipeline | Chain
    values: Mapping[str, Any]
    experiment: str = "kfrec"
    name: str = ""
    schedule: str = ""
    pipeline_root: str = ""
    service_account: str = ""


def submit(client: Client, host: str, wanted: Submission, echo: Callable[[str], None] = print) -> str:
    """Starts a run and returns its identifier.

    Raises:
        KfrecError: KFP refuses or does not answer.
    """
    from kfp_server_api import ApiException
    from urllib3.exceptions import HTTPError

    with explained(host):
        version = ensure_version(client, wanted.ir)
        echo(f"pipeline {version.pipeline}, version {version.name}{' (uploaded)' if version.is_new else ''}")
        experiment_id = _experiment_id(client, fitted(wanted.experiment))
        try:
            run = client.run_pipeline(
                experiment_id,
                fitted(wanted.name) or f"{_prefix(wanted.schedule or version.pipeline)}{time.strftime(_TIME)}",
                pipeline_id=version.pipeline_id,
                version_id=version.version_id,
                params=inputs_of(wanted.values, wanted.pipeline),
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


def unfinished(client: Client, host: str, ir: str, schedule: str = "") -> str | None:
    """A line about the newest run of a pipeline that has not ended; None if all have.

    Two callers at the same moment may both get None: a CronJob with ``concurrencyPolicy: Forbid`` calls this once.

    Args:
        schedule: only runs that this schedule started; empty is all runs.

    Raises:
        KfrecError: KFP refuses or does not answer.
    """
    prefix = _prefix(schedule) if schedule else ""
    named = re.compile(re.escape(prefix) + r"[\d-]{10} [\d:]{8}" if prefix else ".*", re.DOTALL)
    with explained(host):
        pipeline = pipeline_id(client, pipeline_name(ir))
        if pipeline is None:
            return None
        query: dict[str, Any] = {"sort_by": "created_at desc", "namespace": namespace_of(client)}
        if prefix:
            predicate = {"operation": "IS_SUBSTRING", "key": "display_name", "stringValue": prefix}
            query["filter"] = json.dumps({"predicates": [predicate]})
        for page in pages(client.list_runs, **query):
            # KFP's answers leave out fields without a value; the client shows them as None.
            for run in page.runs or ():
                version = run.pipeline_version_reference
                if (
                    run.state not in ENDED
                    and version is not None
                    and version.pipeline_id == pipeline
                    and named.fullmatch(run.display_name or "")
                ):
                    state = (run.state or "PENDING").lower()
                    return f"run {run.display_name!r} is {state}: {host}/#/runs/details/{run.run_id}"
    return None


def _prefix(text: str) -> str:
    """What stands before the time in the name of a run."""
    return f"{fitted(text, NAME - len(' 2026-01-31 02:00:00'))} "


def _experiment_id(client: Client, name: str) -> str:
    """The experiment's identifier; creates it, unless another client does so at the same time."""
    from kfp_server_api import ApiException

    space = namespace_of(client)
    try:
        return str(client.create_experiment(name, namespace=space).experiment_id)
    except ApiException as error:
        if status_of(error) != 409:
            raise
        return str(client.get_experiment(experiment_name=name, namespace=space).experiment_id)


def checked_for_cluster(values: Mapping[str, Any], pipeline: Pipeline | Chain, size: str = LARGE) -> dict[str, Any]:
    """``pipelines.parameters.checked`` with the cluster's defaults for data of a size.

    Raises:
        KfrecError: as there; or a value holds a password, which KFP would store and show to every viewer of the run.
    """
    if not isinstance(pipeline, Pipeline):
        parts = zip(divided(pipeline, values), pipeline, strict=True)
        return joined(pipeline, *(checked_for_cluster(part, training, size) for part, training in parts))
    arguments = checked(values, pipeline, cluster_defaults(pipeline, size))
    for name, shown in without_passwords(arguments).items():
        if shown != arguments[name]:
            raise KfrecError(
                f"parameter {name}={shown!r}: KFP keeps parameters and shows them, passwords too; leave it out, and "
                "give the download step a secret with a netrc file: secrets and environment (NETRC) of its settings"
            )
    return arguments


def inputs_of(values: Mapping[str, Any], pipeline: Pipeline | Chain) -> dict[str, Any]:
    """The inputs of the compiled pipeline for checked values by pipeline-wide name."""
    if isinstance(pipeline, Pipeline):
        return pipeline_inputs(pipeline, values)
    return chain_inputs(pipeline, values)


def require_task_on_server(values: Mapping[str, Any], pipeline: Pipeline | Chain) -> None:
    """Refuses a run whose model would meet a champion of another task, if MLFLOW_TRACKING_URI is a server.

    Otherwise, without MLflow here, or if the server does not answer, the first step of the run that reaches the
    cluster's server looks.

    Raises:
        KfrecError: the champion's task is known to be another one.
    """
    if not isinstance(pipeline, Pipeline):
        for part, training in zip(divided(pipeline, values), pipeline, strict=True):
            require_task_on_server(part, training)
        return
    name = "registered_model"
    known = pipeline_parameters(pipeline, cluster_defaults(pipeline))
    if name in known and tracking_uri().startswith("http") and find_spec("mlflow"):
        require_task_early(values.get(name, known[name].default), pipeline.choices["task"])


@dataclass(frozen=True)
class Version:
    """A version of a pipeline in KFP.

    Attributes:
        is_new: whether this call uploaded it.
    """

    pipeline: str
    name: str
    pipeline_id: str
    version_id: str
    is_new: bool


def find_version(client: Client, ir: str) -> Version | None:
    """The version with this content, if KFP has it."""
    pipeline, name = pipeline_name(ir), version_name(ir)
    owner = pipeline_id(client, pipeline)
    if owner is None:
        return None
    for page in pages(client.list_pipeline_versions, pipeline_id=owner):
        for version in page.pipeline_versions or ():
            if version.display_name == name:
                return Version(pipeline, name, owner, version.pipeline_version_id, is_new=False)
    return None


def ensure_version(client: Client, ir: str) -> Version:
    """The version with this content, uploaded if KFP does not have it; safe to call concurrently."""
    if (existing := find_version(client, ir)) is not None:
        return existing
    from kfp_server_api import ApiException

    pipeline, name = pipeline_name(ir), version_name(ir)
    owner = pipeline_id(client, pipeline) or _create(client, pipeline, ir)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{pipeline}.yaml"
        path.write_text(ir)
        try:
            version = client.upload_pipeline_version(str(path), name, pipeline_id=owner)
        except ApiException as error:
            # Another client has uploaded it, or an earlier attempt whose response was lost.
            if status_of(error) == 409 and (existing := find_version(client, ir)) is not None:
                return existing
            raise
    return Version(pipeline, name, owner, version.pipeline_version_id, is_new=True)


def pipeline_name(ir: str) -> str:
    return fitted(str(_info(ir)["name"]))


def fitted(text: str, limit: int = NAME) -> str:
    """A text of at most ``limit`` characters: a longer one is cut and ends with a digest of the whole."""
    return text if len(text) <= limit else f"{text[: limit - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@functools.lru_cache(maxsize=8)
def _info(ir: str) -> Mapping[str, Any]:
    """The pipelineInfo of a compiled pipeline; cached, as parsing takes tenths of a second."""
    return dict(next(yaml.load_all(ir, yaml.CSafeLoader))["pipelineInfo"])


def _create(client: Client, name: str, ir: str) -> str:
    """Creates a pipeline without versions; an upload would add a version that is not named after its content."""
    from kfp_server_api import ApiException, V2beta1Pipeline

    description = fitted(_info(ir).get("description", "").split("\n")[0], DESCRIPTION)
    body: Any = V2beta1Pipeline(display_name=name, description=description, namespace=namespace_of(client))
    try:
        return str(client._pipelines_api.pipeline_service_create_pipeline(body).pipeline_id)
    except ApiException as error:
        if status_of(error) == 409 and (existing := pipeline_id(client, name)):
            return existing
        raise


def pipeline_id(client: Client, name: str) -> str | None:
    """KFP's identifier of a pipeline; in multi-user KFP of the user's own, never of a shared one."""
    predicate = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
    page = client.list_pipelines(namespace=namespace_of(client), filter=json.dumps({"predicates": [predicate]}))
    pipelines = page.pipelines or ()
    return str(pipelines[0].pipeline_id) if pipelines else None
