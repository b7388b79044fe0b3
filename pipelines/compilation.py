"""Compiles pipelines to IR YAML, and to manifests for clusters that store pipelines as Kubernetes objects."""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from components.errors import KfrecError, explain_os_error
from components.images import VERSION
from pipelines.defaults import DECIDED, OF_ANY_MODEL, TRAINING, Pipeline, cluster_defaults
from pipelines.task_settings import ClusterSettings

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

    from pipelines.chain import Chain


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Json = dict[str, Any]
API_VERSION = "pipelines.kubeflow.org/v2beta1"
# First line of a compiled pipeline: the SDK's comment, or the first object of a manifest.
_COMPILED = ("# PIPELINE DEFINITION", "apiVersion: pipelines.kubeflow.org/")


class _Readable(yaml.SafeDumper):
    """Writes text of several lines as such, rather than in one line with escapes."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Readable.add_representer(str, _Readable.represent_str)


def _definition(pipeline: Pipeline | Chain, settings: ClusterSettings) -> BaseComponent:
    from pipelines.chain import chained_pipeline
    from pipelines.definitions import inference_pipeline, retraining_pipeline, training_pipeline
    from pipelines.exit_task import ending_of

    if not isinstance(pipeline, Pipeline):
        ending = ending_of(settings)
        return chained_pipeline(
            pipeline, settings.configure, lambda each: cluster_defaults(each, settings.size), ending
        )
    define: Mapping[str, Callable[..., BaseComponent]] = {
        TRAINING: training_pipeline,
        **dict.fromkeys(DECIDED, retraining_pipeline),
        **dict.fromkeys(OF_ANY_MODEL, inference_pipeline),
    }
    defaults = cluster_defaults(pipeline, settings.size)
    return define[pipeline.kind](pipeline, settings.configure, defaults, ending=ending_of(settings))


def compiled(pipeline: Pipeline | Chain, settings: ClusterSettings) -> str:
    """The IR YAML of a pipeline: its specification and, in a second document, its Kubernetes configuration."""
    from kfp import compiler

    definition = _definition(pipeline, settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(definition, str(path))
        text = path.read_text()
    spec, platform = yaml.load_all(text, _LOADER)
    share_components(spec, platform)
    lengthen_retries(spec, platform)
    # As the SDK writes it: a comment with inputs and outputs, then the documents.
    comment = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    return comment + yaml.dump_all([spec, platform], Dumper=_Readable, sort_keys=True)


def kubernetes_manifests(ir: str) -> str:
    """A Pipeline and a PipelineVersion (pipelines.kubeflow.org/v2beta1) that hold a compiled pipeline.

    Versions are immutable, so the name contains a digest of the content. Object name and display name are those that
    KFP 2.17 gives an uploaded version; with other names, an upload of the same content would not find this version and
    would fail with 409. ``versionName`` is omitted: CRDs before 2.17 lack the field, and ``kubectl apply`` rejects
    unknown fields.
    """
    documents = list(yaml.load_all(ir, _LOADER))
    spec, platform = documents[0], documents[1] if len(documents) > 1 else {}
    name, description = spec["pipelineInfo"]["name"], spec["pipelineInfo"].get("description", "").split("\n")[0]
    version = version_name(ir)
    objects = [
        {
            "apiVersion": API_VERSION,
            "kind": "Pipeline",
            "metadata": {"name": name},
            "spec": {"displayName": name, "description": description},
        },
        {
            "apiVersion": API_VERSION,
            "kind": "PipelineVersion",
            "metadata": {"name": f"{name}-{version}"},
            "spec": {
                "pipelineName": name,
                "displayName": version,
                "description": description,
                "pipelineSpec": spec,
                "platformSpec": platform,
            },
        },
    ]
    return yaml.dump_all(objects, Dumper=_Readable, sort_keys=False, width=120)


def version_name(ir: str) -> str:
    """The name of a pipeline's version: kfrec's version and the beginning of the SHA-256 of the content."""
    return f"{VERSION}-{hashlib.sha256(ir.encode()).hexdigest()[:8]}"


def write_compiled(folder: Path, settings: ClusterSettings, pipelines: Iterable[Pipeline | Chain]) -> list[Path]:
    """Writes ``<pipeline>.yaml`` and ``<pipeline>.kubernetes.yaml`` for each pipeline and returns their paths.

    Raises:
        KfrecError: the folder cannot be written, or an existing file is not a compiled pipeline.
    """
    texts: dict[Path, str] = {}
    for pipeline in pipelines:
        ir = compiled(pipeline, settings)
        texts |= {
            folder / f"{pipeline.name}.yaml": ir,
            folder / f"{pipeline.name}.kubernetes.yaml": kubernetes_manifests(ir),
        }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in texts:
            if path.exists() and not path.read_text(errors="replace").startswith(_COMPILED):
                raise KfrecError(f"{path}: no compiled pipeline, so it is not overwritten; give another --output")
        for path, text in texts.items():
            path.write_text(text)
    except OSError as error:
        explained: KfrecError | None = explain_os_error(error, folder)
        raise explained or error from error
    return list(texts)


def share_components(spec: Json, platform: Json) -> None:
    """Lets tasks whose components are alike share one, in place: the SDK writes one for each task.

    Args:
        spec: the pipeline's specification, as the SDK compiled it.
        platform: its platform specification.
    """
    components, executors = spec["components"], spec["deploymentSpec"]["executors"]
    of_platform = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    first: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for name, component in list(components.items()):
        executor = component.get("executorLabel")
        alike = [component | {"executorLabel": ""}, executors.get(executor), of_platform.get(executor)]
        replaced[name] = first.setdefault(json.dumps(alike, sort_keys=True), name) if executor else name
        if replaced[name] != name:
            for group in (executors, of_platform):
                group.pop(executor, None)
            del components[name]
    for part in (spec["root"], *components.values()):
        for task in part.get("dag", {}).get("tasks", {}).values():
            task["componentRef"]["name"] = replaced[task["componentRef"]["name"]]


# Wait of each attempt for a node and its image, in seconds.
WAITING = 86_400
# A year, in seconds. Argo counts in nanoseconds of 64 bits, which overflow after 292 years.
LONGEST = 31_536_000


def lengthen_retries(spec: Json, platform: Json) -> None:
    """Extends the retry budget of every task to all of its attempts, in place.

    Args:
        spec: the pipeline's specification, as the SDK compiled it.
        platform: its platform specification, with the timeouts.

    Raises:
        KfrecError: all attempts of a task take longer than a year.
    """
    for step, policy, timeout in _retried(spec, platform):
        retries = int(policy.get("maxRetryCount", 0))  # the SDK leaves out a 0
        wait, factor = float(policy["backoffDuration"].removesuffix("s")), float(policy["backoffFactor"])
        waits = sum(wait * factor**retry for retry in range(min(retries, 64)))  # more exceed LONGEST anyway
        longest = (retries + 1) * (timeout + WAITING) + int(waits)
        if longest > LONGEST:
            raise KfrecError(
                f"{step}: retries={retries}, with exponential backoff, take longer than a year; "
                "lower retries or retry_wait in the settings"
            )
        policy["backoffMaxDuration"] = f"{longest}s"


def _retried(spec: Json, platform: Json) -> Iterator[tuple[str, Json, int]]:
    """Name, retry policy and timeout (seconds) of each task that runs a container."""
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    for part in (spec["root"], *spec["components"].values()):
        for name, task in part.get("dag", {}).get("tasks", {}).items():
            if executor := spec["components"][task["componentRef"]["name"]].get("executorLabel"):
                yield name, task["retryPolicy"], int(executors[executor]["activeDeadlineSeconds"])
