"""Pipelines and their versions in KFP: uploaded if their content is new, reused otherwise."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pipelines.cluster.connection import namespace_of, pages, status_of
from pipelines.compilation import version_name

if TYPE_CHECKING:
    from kfp import Client


# Characters of a name and of a description in the tables of KFP 2.17, which answers 500 to longer ones.
NAME, DESCRIPTION = 191, 255


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
    """The name of a compiled pipeline in KFP."""
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
