"""Runs of a compiled pipeline as KFP 2.17 starts them: one pod a step and attempt, artifacts through the bucket.

What the pods are like is taken from KFP's compiler and driver (backend/src/v2: compiler/argocompiler/container.go and
driver/k8s.go) and Argo's controller. Left out are Argo's second container, and KFP's own records of a run.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pipelines.cluster.submit import checked_for_cluster, inputs_of
from pipelines.compilation import compiled
from pipelines.defaults import Pipeline
from pipelines.task_settings import load_settings
from tests.cluster import kubectl as k8s

Json = dict[str, Any]
BUCKET = "mlpipeline"
_OUTPUT = "/tmp/kfp_outputs/output_metadata.json"
_SCRIPT = "kfrec-test-launcher"
_SCRATCH = {
    name.strip("/.").replace("/", "-") + "-scratch": name
    for name in ("/gcs", "/s3", "/minio", "/.local", "/.cache", "/.config")
}
# What KFP adds to that of the compiled pipeline; the user is the image's.
_SECURITY = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where runs are.

    Attributes:
        namespace: of their pods.
        account: service account of their pods.
        store: the store's address, as pods see it.
        registry: of the images.
        settings: a file with settings of the steps.
        overlay: the kustomization that is applied there.
    """

    namespace: str
    account: str
    store: str
    registry: str
    settings: Path
    overlay: Path


class Failed(Exception):
    """A step failed in all its attempts.

    Attributes:
        log: of its last pod.
    """

    def __init__(self, message: str, log: str) -> None:
        super().__init__(f"{message}\n{log[-6000:]}")
        self.log = log


class Run:
    """One run of a pipeline.

    Args:
        place: where it runs.
        pipeline: that is compiled.
        values: the run's parameters; the others have the pipeline's defaults.
        inputs: a run whose artifacts the steps take where this run has not made them.
    """

    def __init__(self, place: Place, pipeline: Pipeline, values: Mapping[str, Any], inputs: Run | None = None) -> None:
        self.place = place
        spec, platform = yaml.safe_load_all(compiled(pipeline, load_settings(place.settings, place.registry)))
        self._spec, self._inputs = spec, inputs
        self._tasks = dict(_tasks(spec, spec["root"]["dag"]))
        self._kubernetes = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        form = spec["root"]["inputDefinitions"]["parameters"]
        known = {name: entry["defaultValue"] for name, entry in form.items() if "defaultValue" in entry}
        self._values = known | inputs_of(checked_for_cluster(values, pipeline), pipeline)
        self.id = str(uuid.uuid4())
        self.name = f"{pipeline.name}-{self.id[:5]}"
        self._started: set[str] = set()
        self._made: dict[str, Json] = {}
        script = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": _SCRIPT, "namespace": place.namespace},
                  "data": {"launch.py": Path(__file__).with_name("launch.py").read_text()}}  # fmt: skip
        workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
                    "metadata": {"name": self.name, "namespace": place.namespace}, "spec": {}}  # fmt: skip
        k8s.apply([script, workflow])
        self._workflow = k8s.found(place.namespace, "workflow", self.name)
        assert self._workflow is not None

    def step(self, task: str) -> str:
        """Runs a step to its end, with its retries, and returns what it says.

        Raises:
            Failed: its last attempt failed, or a pod vanished, which Argo does not retry.
        """
        retries = int(self._tasks[task].body["retryPolicy"]["maxRetryCount"])
        for attempt in range(retries + 1):
            pod = self.start(task, attempt)
            said = self.finish(pod)
            if said is not None:
                self._made[task] = self.results_of(pod)
                return said
        raise Failed(f"{self.name}: step {task} failed {retries + 1} times", self.log(pod))

    def start(self, task: str, attempt: int = 0) -> str:
        """Creates the pod of a step's attempt and returns its name."""
        self._started.add(task)
        body = self.pod(task, attempt)
        k8s.apply([body])
        return str(body["metadata"]["name"])

    def finish(self, pod: str) -> str | None:
        """Waits for a pod's end and returns what it said; None if it failed.

        Raises:
            Failed: the pod vanished.
        """
        k8s.wait_for(lambda: k8s.phase(self.place.namespace, pod) in ("Succeeded", "Failed", ""))
        ended, said = k8s.phase(self.place.namespace, pod), self.log(pod)
        if not ended:
            raise Failed(f"pod {pod} was deleted", said)
        return said if ended == "Succeeded" else None

    def results(self, task: str) -> Json:
        """The output parameters of a step that has ended."""
        return self._made[task]

    def results_of(self, pod: str) -> Json:
        """The output parameters that a pod has noted."""
        body = k8s.found(self.place.namespace, "pod", pod)
        assert body is not None
        terminated = body["status"]["containerStatuses"][0]["state"]["terminated"]
        return json.loads(terminated.get("message") or "{}")

    def log(self, pod: str) -> str:
        return k8s.log(self.place.namespace, pod)

    def terminate(self) -> None:
        """Deletes the run, as KFP does some time after its end; the garbage collector deletes all that it owns."""
        k8s.kubectl("-n", self.place.namespace, "delete", "workflow", self.name)

    def owns(self, body: Json) -> bool:
        """Whether an object goes with this run."""
        assert self._workflow is not None
        references = body["metadata"].get("ownerReferences", ())
        return any(reference["uid"] == self._workflow["metadata"]["uid"] for reference in references)

    def uri(self, task: str, artifact: str) -> str:
        """Where an artifact is: in this run if it has started the step, or in the one whose artifacts it takes."""
        if task not in self._started and self._inputs is not None:
            return self._inputs.uri(task, artifact)
        return self._own_uri(task, artifact)

    def _own_uri(self, task: str, artifact: str) -> str:
        return f"s3://{BUCKET}/v2/artifacts/{self._spec['pipelineInfo']['name']}/{self.id}/{task}/{artifact}"

    def pod(self, task: str, attempt: int = 0) -> Json:
        """The pod of an attempt of a step."""
        executor = self._spec["deploymentSpec"]["executors"][f"exec-{task}"]["container"]
        settings = self._kubernetes[f"exec-{task}"]
        volumes, mounts = self._volumes(settings)
        metadata = settings.get("podMetadata", {})
        assert self._workflow is not None
        owner = {
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": self.name,
            "uid": self._workflow["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        main = {
            "name": "main",
            "image": executor["image"],
            "imagePullPolicy": settings.get("imagePullPolicy", ""),
            "command": ["python3", "/kfp-launcher/launch.py"],
            "args": [*executor["command"], *executor["args"]],
            "env": self._environment(task, executor, settings, attempt),
            "resources": _resources(executor["resources"]),
            "securityContext": _SECURITY | settings.get("securityContext", {}),
            "volumeMounts": mounts,
        }
        spec = {
            "serviceAccountName": self.place.account,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": int(settings["activeDeadlineSeconds"]),
            "containers": [main],
            "volumes": volumes,
            "tolerations": settings.get("tolerations", []),
            "nodeSelector": settings.get("nodeSelector", {}).get("labels", {}),
            "imagePullSecrets": [{"name": entry["secretName"]} for entry in settings.get("imagePullSecret", ())],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{task}-{attempt}",
                "namespace": self.place.namespace,
                "labels": {
                    **metadata.get("labels", {}),
                    "pipeline/runid": self.id,
                    "workflows.argoproj.io/workflow": self.name,
                },
                "annotations": metadata.get("annotations", {}),
                "ownerReferences": [owner],
            },
            "spec": spec,
        }

    def _environment(self, task: str, executor: Json, settings: Json, attempt: int) -> list[Json]:
        fields = {"KFP_POD_NAME": "metadata.name", "KFP_POD_UID": "metadata.uid", "NAMESPACE": "metadata.namespace"}
        fields |= {entry["name"]: entry["fieldPath"] for entry in settings.get("fieldPathAsEnv", ())}
        key = {"KFREC_TEST_STORE_KEY": "accesskey", "KFREC_TEST_STORE_SECRET": "secretkey"}
        plain = {entry["name"]: entry["value"] for entry in executor.get("env", ())} | {
            "KFP_RETRY_INDEX": str(attempt),
            "KFREC_TEST_STORE_URL": self.place.store,
            "KFREC_TEST_EXECUTOR_INPUT": json.dumps(self.executor_input(task)),
        }
        secret = "mlpipeline-minio-artifact"
        return [
            *({"name": name, "value": value} for name, value in plain.items()),
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
            *({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": own}}} for name, own in key.items()),
        ]

    def _volumes(self, settings: Json) -> tuple[list[Json], list[Json]]:
        """Volumes of a step's pod and where its container has them."""
        made: list[tuple[str, Json, str]] = [("kfp-launcher", {"configMap": {"name": _SCRIPT}}, "/kfp-launcher")]
        made += [(name, {"emptyDir": {}}, path) for name, path in _SCRATCH.items()]
        for entry in settings.get("emptyDirMounts", ()):
            limits = {"sizeLimit": entry["sizeLimit"]} if "sizeLimit" in entry else {}
            made.append((entry["volumeName"], {"emptyDir": limits}, entry["mountPath"]))
        for entry in settings.get("configMapAsVolume", ()):
            name, optional = entry["configMapName"], entry.get("optional", False)
            made.append((name, {"configMap": {"name": name, "optional": optional}}, entry["mountPath"]))
        for entry in settings.get("secretAsVolume", ()):
            name, optional = entry["secretName"], entry.get("optional", False)
            made.append((name, {"secret": {"secretName": name, "optional": optional}}, entry["mountPath"]))
        volumes = [{"name": name, **source} for name, source, _ in made]
        return volumes, [{"name": name, "mountPath": path} for name, _, path in made]

    def executor_input(self, task: str) -> Json:
        """What KFP's driver tells a step: parameters, and where artifacts are."""
        scope, body = self._tasks[task]
        inputs = body["inputs"]
        parameters = {name: self._value(source, scope) for name, source in inputs["parameters"].items()}
        artifacts = {}
        for name, source in inputs.get("artifacts", {}).items():
            origin = source["taskOutputArtifact"]
            producer, key = origin["producerTask"], origin["outputArtifactKey"]
            artifacts[name] = self._artifact(producer, key, self.uri(producer, key))
        made = self._spec["components"][body["componentRef"]["name"]].get("outputDefinitions", {})
        outputs = {name: self._artifact(task, name, self._own_uri(task, name)) for name in made.get("artifacts", {})}
        results = {name: {"outputFile": f"/tmp/kfp/outputs/{name}"} for name in made.get("parameters", {})}
        return {
            "inputs": {"parameterValues": parameters, "artifacts": artifacts},
            "outputs": {"parameters": results, "artifacts": outputs, "outputFile": _OUTPUT},
        }

    def _value(self, source: Json, scope: Sequence[Json]) -> Any:
        """A parameter of a task.

        Args:
            source: of its value.
            scope: the tasks around it, outermost first; none for a task of the pipeline itself.
        """
        if name := source.get("componentInputParameter"):
            return self._value(scope[-1]["inputs"]["parameters"][name], scope[:-1]) if scope else self._values[name]
        if origin := source.get("taskOutputParameter"):
            return self._made[origin["producerTask"]][origin["outputParameterKey"]]
        constant = source["runtimeValue"]["constant"]
        return self.id if constant == "{{$.pipeline_job_uuid}}" else constant

    def _artifact(self, task: str, name: str, uri: str) -> Json:
        component = self._tasks[task].body["componentRef"]["name"]
        declared = self._spec["components"][component]["outputDefinitions"]["artifacts"][name]["artifactType"]
        return {"artifacts": [{"name": name, "type": declared, "uri": uri, "metadata": {}}]}


class _Task(NamedTuple):
    """A step in a compiled pipeline.

    Attributes:
        scope: the tasks around it, outermost first.
        body: of the step.
    """

    scope: Sequence[Json]
    body: Json


def _tasks(spec: Json, dag: Json, scope: Sequence[Json] = ()) -> Iterator[tuple[str, _Task]]:
    """Every step by its name, those of nested pipelines and conditions too."""
    for name, body in dag["tasks"].items():
        component = spec["components"][body["componentRef"]["name"]]
        if "dag" in component:
            yield from _tasks(spec, component["dag"], (*scope, body))
        else:
            yield name, _Task(scope, body)


def _resources(given: Json) -> Json:
    requests = {"cpu": given["resourceCpuRequest"], "memory": given["resourceMemoryRequest"]}
    limits = {"memory": given["resourceMemoryLimit"]}
    if accelerator := given.get("accelerator"):
        limits[accelerator["resourceType"]] = accelerator["resourceCount"]
    return {"requests": requests, "limits": limits}
