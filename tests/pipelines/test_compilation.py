"""The compiled pipelines, and what they ask of a cluster."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from google.protobuf import json_format
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig

from components.errors import KfrecError
from components.images import VERSION
from components.steps.catalog import STEPS
from pipelines.cli import main
from pipelines.compilation import compiled, kubernetes_manifests, lengthen_retries, version_name
from pipelines.defaults import (
    PIPELINES,
    REFIT,
    RETRAINING,
    SMALL,
    TRAINING,
    Pipeline,
    cluster_defaults,
    every_pipeline,
    local_defaults,
)
from pipelines.task_settings import load_settings
from tests.fakes.argo_retries import attempts

Ir = Callable[[Pipeline], str]


@pytest.fixture
def parsed(compiled_ir: Ir) -> Callable[[Pipeline], list[dict[str, Any]]]:
    """The documents of a compiled pipeline."""
    return lambda pipeline: list(yaml.load_all(compiled_ir(pipeline), yaml.CSafeLoader))


@pytest.fixture(scope="module", params=[Pipeline(kind) for kind in PIPELINES], ids=str)
def documents(request: pytest.FixtureRequest, compiled_ir: Ir) -> tuple[dict[str, Any], dict[str, Any]]:
    spec, platform = yaml.load_all(compiled_ir(request.param), yaml.CSafeLoader)
    return spec, platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


@pytest.mark.slow
def test_every_pipeline_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The emitter in C breaks lines elsewhere, in a fifth of the time.
    dump_all = yaml.dump_all
    monkeypatch.setattr(yaml, "dump_all", lambda *given, **named: dump_all(*given, **named | {"Dumper": yaml.CDumper}))
    assert main(["compile", "--output", str(tmp_path)]) == 0
    names = {f"{pipeline.name}{ending}" for pipeline in every_pipeline() for ending in (".yaml", ".kubernetes.yaml")}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.slow
def test_another_process_compiles_a_pipeline_to_the_same_text(tmp_path: Path, compiled_ir: Ir) -> None:
    """A version is named after its content, and found by that name."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "KFREC_REGISTRY": ""}
    command = [sys.executable, "-m", "pipelines.cli", "compile", "--model", Pipeline().model, "--output", str(tmp_path)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    for pipeline in (Pipeline(kind) for kind in (TRAINING, RETRAINING)):
        ir = compiled_ir(pipeline)
        assert (tmp_path / f"{pipeline.name}.yaml").read_text() == ir
        assert (tmp_path / f"{pipeline.name}.kubernetes.yaml").read_text() == kubernetes_manifests(ir)


def test_each_step_runs_in_its_image_with_its_resources(documents: tuple[dict, dict]) -> None:
    containers = {
        name.removeprefix("exec-"): executor["container"]
        for name, executor in documents[0]["deploymentSpec"]["executors"].items()
    }
    assert set(containers) <= set(STEPS)
    for container in containers.values():
        assert container["image"] == f"kfrec-cpu:{VERSION}"
        assert container["resources"]["resourceMemoryRequest"] == container["resources"]["resourceMemoryLimit"]
        assert "accelerator" not in container["resources"]


def test_a_step_that_runs_twice_is_written_once(documents: tuple[dict, dict]) -> None:
    """The refit runs four steps of the training again; the SDK writes each task's component."""
    spec, executors = documents
    tasks = [task["componentRef"]["name"] for _, task in all_tasks(spec)]
    runs = [name for name in tasks if "executorLabel" in spec["components"][name]]
    refits = "comp-register" in runs
    assert len(runs) - len(set(runs)) == (len(REFIT) if refits else 0)
    labels = {each.get("executorLabel") for each in spec["components"].values()} - {None}
    assert labels == set(executors) == set(spec["deploymentSpec"]["executors"])


def test_the_code_of_a_step_is_read_line_by_line(compiled_ir: Ir) -> None:
    for text in (compiled_ir(Pipeline()), kubernetes_manifests(compiled_ir(Pipeline()))):
        assert any(line.strip() == 'return component("train", locals())' for line in text.splitlines())


def test_pods_for_small_data_ask_for_little_and_no_gpu() -> None:
    spec, _ = yaml.load_all(compiled(Pipeline(), load_settings(size=SMALL)), yaml.CSafeLoader)
    inputs = spec["root"]["inputDefinitions"]["parameters"]
    assert (inputs["gpus_per_worker"]["defaultValue"], inputs["pod_memory"]["defaultValue"]) == (0, "8Gi")
    asked = {name: each["container"]["resources"] for name, each in spec["deploymentSpec"]["executors"].items()}
    memory = {name: int(each["resourceMemoryLimit"].removesuffix("Gi")) for name, each in asked.items()}
    assert max(memory.values()) == memory["exec-preprocess"] == 8
    assert max(float(each["resourceCpuRequest"]) for each in asked.values()) == 2


@pytest.mark.parametrize("pipeline", [Pipeline(), Pipeline(RETRAINING, "sasrec", "events")], ids=lambda each: each.name)
def test_small_data_have_the_defaults_of_this_machine_on_a_cluster(pipeline: Pipeline) -> None:
    small, here = cluster_defaults(pipeline, SMALL), local_defaults(pipeline)
    assert small.items() >= here.items()
    assert set(small) - set(here) == {"launcher", "gpus_per_worker", "pod_cpu", "pod_memory", "shared_memory"}


def test_a_settings_file_overrides_those_of_small_data(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("steps: {preprocess: {memory: 12Gi}}")
    steps = load_settings(tmp_path / "own.yaml", size=SMALL).steps
    assert (steps["preprocess"].memory, steps["preprocess"].cpu, steps["train"].memory) == ("12Gi", "2", "2Gi")


def test_a_registry_stands_before_every_image(configured: tuple[dict, dict]) -> None:
    images = {each["container"]["image"] for each in configured[0]["deploymentSpec"]["executors"].values()}
    assert images == {f"registry.example.org/team/kfrec-cpu:{VERSION}"}


def all_tasks(spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Tasks by their names, those of conditions and loops included."""
    dags = [spec["root"], *spec["components"].values()]
    return [task for part in dags for task in part.get("dag", {}).get("tasks", {}).items()]


def test_each_step_has_retries_a_timeout_scratch_space_and_optional_mounts(documents: tuple[dict, dict]) -> None:
    spec, executors = documents
    assert set(executors) == set(spec["deploymentSpec"]["executors"])
    tasks = {task["componentRef"]["name"]: task for _, task in all_tasks(spec)}
    for name, executor in executors.items():
        task = tasks[name.replace("exec-", "comp-")]
        assert task["retryPolicy"]["maxRetryCount"] == 2 and task["retryPolicy"]["backoffDuration"] == "60s"
        assert int(executor["activeDeadlineSeconds"]) > 0
        assert [mount["mountPath"] for mount in executor["emptyDirMounts"]] == ["/tmp"]
        mounted = executor["configMapAsVolume"] + executor["secretAsVolume"]
        wanted = {"kfrec-config", "kfrec-object-store"}
        assert {entry.get("configMapName", entry.get("secretName")) for entry in mounted} >= wanted
        assert all(entry["optional"] for entry in mounted)


def configured_by(folder: Path, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pipeline's specification and its executors, with the settings of a cluster."""
    (folder / "cluster.yaml").write_text(text)
    settings = load_settings(folder / "cluster.yaml", registry="registry.example.org/team/")
    spec, platform = yaml.load_all(compiled(Pipeline(), settings), yaml.CSafeLoader)
    # As KFP's API server and driver read it; they refuse what they do not know.
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    for executor in executors.values():
        json_format.ParseDict(executor, KubernetesExecutorConfig())
    return spec, executors


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    return configured_by(
        tmp_path_factory.mktemp("settings"),
        """
every_step:
  image_pull_secrets: [kfrec-pull]
  annotations: {karpenter.sh/do-not-disrupt: "true", team: ads}
  scratch_volume: ephemeral
steps:
  download: {scratch: 1Ti, scratch_class: local-ssd}
  train:
    scratch_volume: emptyDir
    node_affinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions: [{key: pool, operator: In, values: [cpu, spare]}]
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 10
          preference: {matchExpressions: [{key: spot, operator: DoesNotExist}]}
""",
    )


def test_what_a_cluster_sets_reaches_the_pods_of_the_steps(configured: tuple[dict, dict]) -> None:
    _, executors = configured
    for executor in executors.values():
        assert [secret["secretName"] for secret in executor["imagePullSecret"]] == ["kfrec-pull"]
        assert executor["podMetadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true", "team": "ads"}
        assert executor["podMetadata"]["labels"]["app.kubernetes.io/part-of"] == "kfrec"
    assert executors["exec-train"]["nodeAffinity"] == [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["cpu", "spare"]}]},
        {"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}], "weight": 10},
    ]
    assert {name for name, executor in executors.items() if "nodeAffinity" in executor} == {"exec-train"}


def test_an_affinity_that_is_none_is_one_line(tmp_path: Path) -> None:
    text = "steps: {train: {node_affinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}"
    with pytest.raises(KfrecError, match=r"cluster\.yaml: settings of the step train: node_affinity: .* correct them"):
        configured_by(tmp_path, text)


def test_a_step_may_have_a_volume_of_a_storage_class_as_its_disk(configured: tuple[dict, dict]) -> None:
    _, executors = configured
    (volume,) = executors["exec-download"]["genericEphemeralVolume"]
    assert (volume["mountPath"], volume["size"], volume["storageClassName"]) == ("/tmp", "1Ti", "local-ssd")
    assert volume["accessModes"] == ["ReadWriteOnce"] and "emptyDirMounts" not in executors["exec-download"]
    (volume,) = executors["exec-tfrecord"]["genericEphemeralVolume"]
    assert volume["defaultStorageClass"] is True
    assert "genericEphemeralVolume" not in executors["exec-train"] and executors["exec-train"]["emptyDirMounts"]


def test_a_step_that_fails_at_the_end_of_its_time_is_retried_and_the_last_retry_has_all_its_time(
    documents: tuple[dict, dict],
) -> None:
    spec, executors = documents
    policies = {
        executor: task["retryPolicy"]
        for _, task in all_tasks(spec)
        if (executor := spec["components"][task["componentRef"]["name"]].get("executorLabel"))
    }
    assert set(policies) == set(executors)
    for name, policy in policies.items():
        timeout = float(executors[name]["activeDeadlineSeconds"])
        assert attempts(policy, [timeout] * 3) == [timeout] * 3, name


def test_only_a_retraining_has_steps_in_a_nested_dag_whose_retries_kfp_2_14_brought(
    parsed: Callable[[Pipeline], list[dict[str, Any]]],
) -> None:
    for kind, at_the_top in ((TRAINING, PIPELINES[TRAINING]), (RETRAINING, ("find",))):
        spec = parsed(Pipeline(kind))[0]
        top = {
            name
            for name, task in spec["root"]["dag"]["tasks"].items()
            if "executorLabel" in spec["components"][task["componentRef"]["name"]]
        }
        assert top == set(at_the_top)


@pytest.mark.parametrize("retries", [20, 40, 5000])
def test_retries_that_take_longer_than_a_year_are_refused(
    parsed: Callable[[Pipeline], list[dict[str, Any]]], retries: int
) -> None:
    spec, platform = parsed(Pipeline())
    spec["root"]["dag"]["tasks"]["train"]["retryPolicy"]["maxRetryCount"] = retries
    with pytest.raises(KfrecError, match=f"train: retries={retries}, .* lower retries or retry_wait"):
        lengthen_retries(spec, platform)


def test_training_evaluation_registration_and_lists_of_newer_events_are_never_taken_from_the_cache(
    documents: tuple[dict, dict],
) -> None:
    spec, _ = documents
    tasks = all_tasks(spec)
    cached = {name for name, task in tasks if task.get("cachingOptions", {}).get("enableCache")}
    steps = {name for name, _ in tasks if name.removesuffix("-2") in ("download", "preprocess", "tfrecord")}
    if "recommend" in dict(tasks):
        steps = set()
    assert cached & {name for name, task in tasks if "retryPolicy" in task} == steps


def test_retraining_goes_on_only_with_new_data_and_always_looks_again(
    parsed: Callable[[Pipeline], list[dict[str, Any]]],
) -> None:
    spec = parsed(Pipeline(RETRAINING))[0]
    tasks = spec["root"]["dag"]["tasks"]
    condition = next(task for name, task in tasks.items() if name != "find")
    assert condition["triggerPolicy"]["condition"] == "inputs.parameter_values['pipelinechannel--find-proceed'] == true"
    assert not tasks["find"]["cachingOptions"].get("enableCache")
    inner = {name for part in spec["components"].values() for name in part.get("dag", {}).get("tasks", {})}
    assert set(PIPELINES[TRAINING]) < inner
    shown = spec["root"]["inputDefinitions"]["parameters"]
    preprocess = next(task for name, task in all_tasks(spec) if name == "preprocess")["inputs"]["parameters"]
    assert preprocess["defaults"]["runtimeValue"]["constant"]["out_of_vocabulary_limit"] == 0.05
    assert not {"source", "workflow", "data_version", "occasion", "warm_start_path"} & set(shown)
    assert "workflow" in preprocess and "workflow" not in preprocess["defaults"]["runtimeValue"]["constant"]


def test_the_cluster_trains_with_an_mpijob_and_knows_its_own_pod(documents: tuple[dict, dict]) -> None:
    spec, executors = documents
    training = [task["inputs"]["parameters"]["defaults"] for name, task in all_tasks(spec) if name == "train"]
    assert ("exec-train" in executors) == bool(training)
    if not training:  # a prediction
        return
    assert training[0]["runtimeValue"]["constant"]["launcher"] == "mpijob"
    fields = {entry["name"]: entry["fieldPath"] for entry in executors["exec-train"]["fieldPathAsEnv"]}
    assert fields == {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "POD_NAMESPACE": "metadata.namespace"}
    assert {e["configMapName"] for e in executors["exec-train"]["configMapAsVolume"]} == {
        "kfrec-config",
        "kfrec-mpijob",
    }


@pytest.mark.parametrize("name", [Pipeline(kind) for kind in PIPELINES], ids=str)
def test_the_manifests_validate_against_the_crds_and_hold_the_pipeline(name: Pipeline, compiled_ir: Ir) -> None:
    if "KFREC_SCHEMAS" not in os.environ:
        pytest.skip("KFREC_SCHEMAS does not name the folder of CRDs")
    schemas = {}
    for kind in ("Pipeline", "PipelineVersion"):
        file = Path(os.environ["KFREC_SCHEMAS"]) / f"pipelines.kubeflow.org_{kind.lower()}s.yaml"
        crd = next(yaml.load_all(file.read_text(), yaml.CSafeLoader))
        schemas[kind] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    ir = compiled_ir(name)
    pipeline, version = yaml.load_all(kubernetes_manifests(ir), yaml.CSafeLoader)
    for manifest in (pipeline, version):
        jsonschema.validate(manifest, schemas[manifest["kind"]])
    assert version["spec"]["pipelineName"] == pipeline["metadata"]["name"]
    assert version["spec"]["displayName"] == version_name(ir)
    assert version["metadata"]["name"] == f"{pipeline['metadata']['name']}-{version_name(ir)}"
    assert [version["spec"]["pipelineSpec"], version["spec"]["platformSpec"]] == list(
        yaml.load_all(ir, yaml.CSafeLoader)
    )
