"""Parameters of a pipeline that runs on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.errors import KfrecError
from components.secrets import without_passwords
from pipelines.defaults import CLUSTER_DEFAULTS, Pipeline
from pipelines.parameters import checked


def checked_for_cluster(values: Mapping[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """:func:`pipelines.parameters.checked` with the cluster's defaults.

    Raises:
        KfrecError: as there; or a value holds a password, which KFP would store and show to every viewer of the run.
    """
    found = checked(values, pipeline, CLUSTER_DEFAULTS)
    for name, shown in without_passwords(found).items():
        if shown != found[name]:
            raise KfrecError(
                f"parameter {name}={shown!r}: KFP keeps parameters and shows them, passwords too; leave it out, and "
                "give the download step a secret with a netrc file: secrets and environment (NETRC) of its settings"
            )
    return found
