from pathlib import Path

import pytest
import yaml

from components.errors import KfrecError
from components.steps.catalog import STEPS
from pipelines.compilation import compiled
from pipelines.defaults import Pipeline
from pipelines.task_settings import load_settings

ROOT = Path(__file__).parents[2]


def test_every_step_has_settings_of_its_own() -> None:
    steps = load_settings().steps
    assert set(steps) == set(STEPS)
    assert [name for name, settings in steps.items() if settings.gpus] == []
    assert [name for name, settings in steps.items() if not settings.cache] == [
        "find",
        "train",
        "evaluate",
        "register",
        "predict",
        "recommend",
        "feedback",
    ]


def test_a_quantity_may_be_a_whole_number_as_in_kubernetes(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("every_step: {cpu: 2}\n")
    assert {settings.cpu for settings in load_settings(file).steps.values()} == {"2"}


def test_a_training_that_takes_all_of_its_default_deadline_may_wait_a_day_in_a_queue_before() -> None:
    """KFP's timeout counts from the start of the step's pod, which waits for the queue; the deadline does not."""
    assert load_settings().steps["train"].timeout - STEPS["train"].of().deadline >= 24 * 3600


def test_a_file_replaces_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("every_step: {retries: 5}\nsteps:\n  preprocess: {cpu: 32, scratch: 1Ti}\n")
    before, after = load_settings().steps, load_settings(file).steps
    assert (after["preprocess"].cpu, after["preprocess"].scratch) == ("32", "1Ti")
    assert after["preprocess"].memory == before["preprocess"].memory
    assert {settings.retries for settings in after.values()} == {5}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("steps: {preproces: {gpus: 0}}", "unknown parameter preproces: did you mean preprocess?"),
        ("steps: {train: {memmory: 4Gi}}", "train: unknown parameter memmory: did you mean memory?"),
        ("every_step: {retries: three}", "retries: 'three' is not a whole number"),
        ("every_step: {cpu: lots}", "cpu: 'lots' is not a Kubernetes quantity"),
        ("every_step: {scratch_class: 4}", "scratch_class: 4 is not text"),
        ("every_step: {environment: {A: 1}}", "environment: A: 1 is not text (in quotes"),
        ("every_step: {gpus: 3}", "gpus: 3 must be one of 0, 1, 2, 4, 8, 16"),
        ("every_step: {tolerations: [{key: 1}]}", "tolerations: entry 1: key: 1 is not text"),
        ("every_step: {tolerations: [{operator: Exist}]}", "entry 1: operator: 'Exist' must be one of Exists, Equal"),
        ("every_step: {tolerations: [{effect: NoSchedul}]}", "effect: 'NoSchedul' must be one of NoSchedule"),
        ("every_step: {retries: -1}", "retries: -1 must be at least 0"),
        ("every_step: {scratch_volume: hostPath}", "scratch_volume: 'hostPath' must be one of emptyDir, ephemeral"),
        ("every_step: {node_affinity: {required: {}}}", "node_affinity: unknown parameter required"),
        ("steps: [train]", "is not a mapping"),
        ("steps:\n  train: {cpu: 1}\n  train: {memory: 4Gi}", "not YAML (line 3 sets train a second time); correct it"),
        ("steps: {train: ", "not YAML"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_that_names_it(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(KfrecError) as error:
        load_settings(file)
    assert str(file) in str(error.value) and told in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_a_claim_is_mounted_where_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("steps: {preprocess: {claims: {kfrec-shared: /shared}}}\n")
    _, platform = yaml.load_all(compiled(Pipeline(), load_settings(tmp_path / "cluster.yaml")), yaml.CSafeLoader)
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    (mounted,) = executors["exec-preprocess"]["pvcMount"]
    assert (mounted["constant"], mounted["mountPath"]) == ("kfrec-shared", "/shared")
    assert "pvcMount" not in executors["exec-train"]


@pytest.mark.slow
def test_a_toleration_is_written_as_in_a_pod(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "steps: {train: {tolerations: [{key: a/b, operator: Exists, effect: NoExecute, tolerationSeconds: 30}]}}\n"
    )
    _, platform = yaml.load_all(compiled(Pipeline(), load_settings(tmp_path / "cluster.yaml")), yaml.CSafeLoader)
    train = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]
    assert train["tolerations"] == [
        {"key": "a/b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "30"}
    ]


def test_a_required_node_affinity_without_terms_is_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "steps: {train: {node_affinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerm: []}}}}\n"
    )
    with pytest.raises(KfrecError, match=r"settings of the step train: node_affinity: .* is not a pod's nodeAffinity"):
        compiled(Pipeline(), load_settings(tmp_path / "cluster.yaml"))


@pytest.mark.slow
def test_a_step_may_have_no_retries(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("steps: {train: {retries: 0}}\n")
    spec, _ = yaml.load_all(compiled(Pipeline(), load_settings(tmp_path / "cluster.yaml")), yaml.CSafeLoader)
    tasks = spec["root"]["dag"]["tasks"]
    assert "maxRetryCount" not in tasks["train"]["retryPolicy"] and tasks["download"]["retryPolicy"]["maxRetryCount"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"absent\.yaml: cannot be read"):
        load_settings(tmp_path / "absent.yaml")


def test_a_step_has_the_account_of_mlflow_only_if_it_speaks_to_it() -> None:
    with_account = {name for name, settings in load_settings().steps.items() if "kfrec-mlflow" in settings.secrets}
    speaking = {
        path.parts[-2]
        for path in ROOT.glob("components/*/*.py")
        if path.parts[-2] in STEPS
        and any(f"components.{module}" in path.read_text() for module in ("tracking", "inference.model"))
    }
    assert with_account == speaking and len(speaking) == 7
