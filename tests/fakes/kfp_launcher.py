"""KFP's launcher around one step (backend/src/v2: component/launcher_v2.go and objectstore/object_store.go).

It downloads every object whose key begins like an input's, also those of a neighbour whose name goes on differently,
one by one and without a limit; runs the function that the compiled pipeline carries; and uploads what the step left in
the folders of its outputs. It skips outputs that are not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kfp.dsl import executor
from kfp.dsl.types import artifact_types


@dataclass
class Copied:
    """Bytes that KFP itself moved for one step, and the keys."""

    down: dict[str, int] = field(default_factory=dict)
    up: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(self.down.values()) + sum(self.up.values())


class KfpLauncher:
    """Runs steps of a compiled pipeline in this process, with artifacts in a bucket of Google Cloud Storage.

    Args:
        spec: the pipeline's IR.
        bucket: of google-cloud-storage.
        root: prefix of the run within the bucket.
        folder: stands for the file systems of the pods.
    """

    def __init__(self, spec: Mapping[str, Any], bucket: Any, root: str, folder: Path) -> None:
        self._spec, self._bucket, self._root, self._folder = spec, bucket, root, folder
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.copied: dict[str, Copied] = {}

    def run(self, step: str, patch: pytest.MonkeyPatch, **changed: Any) -> dict[str, Any]:
        """Runs a step on the outputs of those before it and returns what its executor tells KFP.

        Args:
            step: name of the task.
            patch: points KFP's SDK to the folder of this pod.
            changed: parameters, by the component's names.
        """
        component = self._spec["components"][f"comp-{step}"]
        pod = self._folder / step
        patch.setattr(artifact_types, "_GCS_LOCAL_MOUNT_PREFIX", f"{pod}/gcs/")
        copied = self.copied[step] = Copied()
        inputs = {name: self.artifacts[name] for name in component["inputDefinitions"].get("artifacts", {})}
        for artifact in inputs.values():
            self._download(artifact["uri"], pod, copied)
        outputs = {
            name: {
                "name": name,
                "type": entry["artifactType"],
                "uri": f"gs://{self._bucket.name}/{self._root}/{step}/{name}",
                "metadata": {},
            }
            for name, entry in component["outputDefinitions"].get("artifacts", {}).items()
        }
        told = pod / "output.json"
        given = {
            "inputs": {
                "parameterValues": self._values(step) | changed,
                "artifacts": {name: {"artifacts": [artifact]} for name, artifact in inputs.items()},
            },
            "outputs": {
                "artifacts": {name: {"artifacts": [artifact]} for name, artifact in outputs.items()},
                "outputFile": str(told),
            },
        }
        executor.Executor(executor_input=given, function_to_execute=self._function(step)).execute()
        self.artifacts |= outputs
        for artifact in outputs.values():
            self._upload(artifact["uri"], pod, copied)
        return json.loads(told.read_text())

    def _values(self, step: str) -> dict[str, Any]:
        """What the pipeline's defaults say."""
        defaults = self._spec["root"]["inputDefinitions"]["parameters"]
        values = {}
        for name, source in self._spec["root"]["dag"]["tasks"][step]["inputs"].get("parameters", {}).items():
            pipeline_name, constant = source.get("componentInputParameter"), source.get("runtimeValue")
            if constant and constant["constant"] != "{{$.pipeline_job_uuid}}":
                values[name] = constant["constant"]
            else:
                values[name] = defaults[pipeline_name]["defaultValue"] if pipeline_name in defaults else "run-1"
        return values

    def _function(self, step: str) -> Callable[..., Any]:
        """The function that the compiled step carries as text."""
        container = self._spec["deploymentSpec"]["executors"][f"exec-{step}"]["container"]
        return function_of(container["command"][-1], step)

    def _local(self, uri: str, pod: Path) -> Path:
        return pod / "gcs" / uri.removeprefix("gs://")

    def _download(self, uri: str, pod: Path, copied: Copied) -> None:
        key = uri.removeprefix(f"gs://{self._bucket.name}/")
        for blob in self._bucket.list_blobs(prefix=key):
            target = Path(os.path.normpath(self._local(uri, pod) / os.path.relpath(blob.name, key)))
            target.parent.mkdir(parents=True, exist_ok=True)
            blob.download_to_filename(str(target))
            copied.down[blob.name] = target.stat().st_size

    def _upload(self, uri: str, pod: Path, copied: Copied) -> None:
        local, key = self._local(uri, pod), uri.removeprefix(f"gs://{self._bucket.name}/")
        files = [local] if local.is_file() else sorted(path for path in local.rglob("*") if path.is_file())
        for path in files:
            name = key if path == local else f"{key}/{path.relative_to(local).as_posix()}"
            self._bucket.blob(name).upload_from_filename(str(path))
            copied.up[name] = path.stat().st_size


def function_of(source: str, name: str) -> Callable[..., Any]:
    """The function of this name that a compiled step carries as text."""
    module: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), module)
    return module[name]
