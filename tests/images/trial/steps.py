"""The steps of a compiled pipeline as KFP runs them: containers' commands between copies from and to the bucket."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.images.trial.podman import NETWORK, RESTRICTED, USER, Podman, empty_dir, environment_options

Json = dict[str, Any]
BUCKET, RUN = "kfrec", "pipelines/kfrec-training/run-1"
_OUTPUT = "/tmp/kfp_outputs/output_metadata.json"


class Steps:
    """One run of a pipeline.

    Args:
        spec: the compiled pipeline.
        values: the run's parameters; the others have the pipeline's defaults.
        s3: a boto3 client.
        podman: runs the containers.
        folder: for their volumes.
    """

    def __init__(self, spec: Json, values: Mapping[str, Any], s3: Any, podman: Podman, folder: Path) -> None:
        defaults = spec["root"]["inputDefinitions"]["parameters"]
        self._spec, self._s3, self._podman, self._folder = spec, s3, podman, folder
        self._values = {name: entry["defaultValue"] for name, entry in defaults.items()} | dict(values)

    def run(self, task: str, image: str, mounted: Mapping[Path, str], **environment: str) -> str:
        """Runs a step's container, as its pod has it and on a read-only root, and returns what it says.

        Raises:
            RuntimeError: the step failed.
        """
        place = self._folder / task
        local, scratch = empty_dir(place / "s3"), empty_dir(place / "tmp")
        given = self.executor_input(task)
        for inputs in given["inputs"]["artifacts"].values():
            self.download(inputs["artifacts"][0]["uri"], local)
        container = self._spec["deploymentSpec"]["executors"][f"exec-{task}"]["container"]
        words = [*container["command"], *container["args"]]
        command = [json.dumps(given) if word == "{{$}}" else word for word in words]
        volumes = [f"--volume={local}:/s3", f"--volume={scratch}:/tmp"]
        volumes += [f"--volume={source}:{path}:ro" for source, path in mounted.items()]
        options = [f"--network={NETWORK}", *RESTRICTED, *volumes, *environment_options(environment)]
        done = self._podman.try_run(image, *command, options=options)
        if done.returncode:
            raise RuntimeError(f"step {task}: status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-5000:]}")
        self.upload(local)
        assert (scratch / _OUTPUT.removeprefix("/tmp/")).is_file() or task == "download"
        return done.stdout + done.stderr

    def executor_input(self, task: str) -> Json:
        """What KFP's driver tells a step: parameters, and where artifacts are."""
        body = self._spec["root"]["dag"]["tasks"][task]
        inputs = body["inputs"]
        parameters = {name: self._value(source) for name, source in inputs["parameters"].items()}
        artifacts = {}
        for name, source in inputs.get("artifacts", {}).items():
            origin = source["taskOutputArtifact"]
            artifacts[name] = self._artifact(origin["producerTask"], origin["outputArtifactKey"])
        made = self._spec["components"][body["componentRef"]["name"]].get("outputDefinitions", {})
        outputs = {name: self._artifact(task, name) for name in made.get("artifacts", {})}
        results = {name: {"outputFile": f"/tmp/kfp/outputs/{name}"} for name in made.get("parameters", {})}
        return {
            "inputs": {"parameterValues": parameters, "artifacts": artifacts},
            "outputs": {"parameters": results, "artifacts": outputs, "outputFile": _OUTPUT},
        }

    def uri(self, task: str, artifact: str) -> str:
        return f"s3://{BUCKET}/{RUN}/{task}/{artifact}"

    def download(self, uri: str, folder: Path) -> Path:
        """Copies all objects below a URI to where a step looks for them."""
        prefix = uri.removeprefix(f"s3://{BUCKET}/")
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/"):
            for entry in page.get("Contents", ()):
                target = folder / BUCKET / entry["Key"]
                target.parent.mkdir(parents=True, exist_ok=True)
                self._s3.download_file(BUCKET, entry["Key"], str(target))
        for path in folder.rglob("*"):  # KFP's launcher is the step's own user
            os.chown(path, USER, USER)
        return folder / BUCKET / prefix

    def upload(self, folder: Path) -> None:
        """Copies all files that a step left, inputs among them, which are as they were."""
        for file in (folder / BUCKET).rglob("*"):
            if file.is_file():
                self._s3.upload_file(str(file), BUCKET, str(file.relative_to(folder / BUCKET)))

    def _value(self, source: Json) -> Any:
        if name := source.get("componentInputParameter"):
            return self._values[name]
        constant = source["runtimeValue"]["constant"]
        return "run-1" if constant == "{{$.pipeline_job_uuid}}" else constant

    def _artifact(self, task: str, name: str) -> Json:
        component = self._spec["root"]["dag"]["tasks"][task]["componentRef"]["name"]
        declared = self._spec["components"][component]["outputDefinitions"]["artifacts"][name]["artifactType"]
        return {"artifacts": [{"name": name, "type": declared, "uri": self.uri(task, name), "metadata": {}}]}
