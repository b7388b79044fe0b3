"""Parameters of a pipeline that runs on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.secrets import without_passwords
from components.tracking.champion import require_task_early
from components.tracking.store import tracking_uri
from pipelines.defaults import CLUSTER_DEFAULTS, Pipeline
from pipelines.form import pipeline_inputs
from pipelines.parameters import checked, pipeline_parameters

if TYPE_CHECKING:
    from pipelines.chain import Chain


def checked_for_cluster(values: Mapping[str, Any], pipeline: Pipeline | Chain) -> dict[str, Any]:
    """``pipelines.parameters.checked`` with the cluster's defaults.

    Raises:
        KfrecError: as there; or a value holds a password, which KFP would store and show to every viewer of the run.
    """
    if not isinstance(pipeline, Pipeline):
        from pipelines.chain import divided, joined

        parts = zip(divided(pipeline, values), pipeline, strict=True)
        return joined(pipeline, *(checked_for_cluster(part, training) for part, training in parts))
    arguments = checked(values, pipeline, CLUSTER_DEFAULTS)
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
    from pipelines.chain import chain_inputs

    return chain_inputs(pipeline, values)


def require_task_on_server(values: Mapping[str, Any], pipeline: Pipeline | Chain) -> None:
    """Refuses a run whose model would meet a champion of another task, if MLFLOW_TRACKING_URI is a server.

    Otherwise, without MLflow here, or if the server does not answer, the first step of the run that reaches the
    cluster's server looks.

    Raises:
        KfrecError: the champion's task is known to be another one.
    """
    if not isinstance(pipeline, Pipeline):
        from pipelines.chain import divided

        for part, training in zip(divided(pipeline, values), pipeline, strict=True):
            require_task_on_server(part, training)
        return
    name = "registered_model"
    known = pipeline_parameters(pipeline, CLUSTER_DEFAULTS)
    if name in known and tracking_uri().startswith("http") and find_spec("mlflow"):
        require_task_early(values.get(name, known[name].default), pipeline.choices["task"])
