from collections.abc import Callable

import pytest
import yaml

from components.errors import KfrecError
from components.parameters import parameters_of
from components.steps.catalog import STEPS
from components.steps.command import DEFAULTS, OPTIONS
from pipelines.defaults import PIPELINES, TRAINING, Pipeline, cluster_defaults
from pipelines.form import field_names, options_of
from pipelines.parameters import checked, pipeline_parameters

KFP_TYPES = {int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", bool: "BOOLEAN", str: "STRING", dict: "STRUCT"}

# The name that KFP gives the tasks that depend on the first condition.
REFITS = "condition-1"


@pytest.fixture(scope="module")
def compiled(compiled_ir: Callable[[Pipeline], str]) -> dict:
    return next(yaml.load_all(compiled_ir(Pipeline()), yaml.CSafeLoader))


def test_every_field_reaches_the_ui_with_type_default_and_description(compiled: dict) -> None:
    inputs = compiled["root"]["inputDefinitions"]["parameters"]
    fields = field_names(Pipeline())
    expected = {
        name: (KFP_TYPES[p.plain_type], p.plain_default, "".join(p.description.split()))
        for name, p in pipeline_parameters(Pipeline(), cluster_defaults(Pipeline())).items()
        if name in fields
    }
    shown = {
        name: (entry["parameterType"], entry["defaultValue"], "".join(entry["description"].split()))
        for name, entry in inputs.items()
    }
    options = {f"{step}_options": shown.pop(f"{step}_options") for step in PIPELINES[TRAINING]}
    assert compiled["pipelineInfo"]["name"] == "kfrec-sim-training"
    assert shown == expected
    assert {(kind, str(default)) for kind, default, _ in options.values()} == {("STRUCT", "{}")}
    assert "patience" in options["train_options"][2] and "epochs" not in options["train_options"][2]


def test_every_other_parameter_is_an_option_of_its_steps_with_its_default(compiled: dict) -> None:
    known = pipeline_parameters(Pipeline(), cluster_defaults(Pipeline()))
    seen = set(field_names(Pipeline()))
    for name in PIPELINES[TRAINING]:
        given = compiled["root"]["dag"]["tasks"][name]["inputs"]["parameters"]
        assert given[OPTIONS] == {"componentInputParameter": f"{name}_options"}
        options = [parameter.pipeline_name for parameter in options_of(name, Pipeline(), field_names(Pipeline()))]
        constant = given[DEFAULTS]["runtimeValue"]["constant"]
        assert constant == {wide: known[wide].plain_default for wide in options}
        seen |= set(options)
    assert seen == set(known)


def test_the_steps_run_in_the_order_of_the_catalog(compiled: dict) -> None:
    tasks = compiled["root"]["dag"]["tasks"]
    depends = {name: set(task.get("dependentTasks", ())) for name, task in tasks.items()}
    assert depends == {
        "download": set(),
        "preprocess": {"download"},
        "tfrecord": {"preprocess"},
        "train": {"tfrecord"},
        "evaluate": {"tfrecord", "train"},
        "register": {"tfrecord", "train", "evaluate"},
        REFITS: {"download", "evaluate", "register"},
    }
    order = list(PIPELINES[TRAINING])
    assert all(order.index(before) < order.index(name) for name in order for before in depends[name])


@pytest.mark.parametrize("name", PIPELINES[TRAINING])
def test_a_component_takes_exactly_what_the_catalog_declares(name: str, compiled: dict) -> None:
    inputs = compiled["components"][f"comp-{name}"]["inputDefinitions"]
    folders = (*STEPS[name].inputs, *STEPS[name].outputs)
    told_by_artifacts = {f"{folder}_uri" for folder in folders}
    options = {p.name for p in options_of(name, Pipeline(), field_names(Pipeline()))}
    declared = {
        p.name: KFP_TYPES[p.plain_type]
        for p in parameters_of(STEPS[name].parameters())
        if p.name not in told_by_artifacts and p.name not in options
    }
    declared |= {OPTIONS: "STRUCT", DEFAULTS: "STRUCT"}
    assert {key: entry["parameterType"] for key, entry in inputs["parameters"].items()} == declared
    assert set(inputs.get("artifacts", {})) == set(STEPS[name].inputs)


def test_a_refit_follows_if_the_register_step_says_so(compiled: dict) -> None:
    """It reads the raw data and the evaluation of the judged model; all else is its own."""
    task = compiled["root"]["dag"]["tasks"][REFITS]
    decided = "inputs.parameter_values['pipelinechannel--register-refit'] == true"
    assert task["triggerPolicy"]["condition"] == decided
    tasks = compiled["components"][task["componentRef"]["name"]]["dag"]["tasks"]
    depends = {name: set(each.get("dependentTasks", ())) for name, each in tasks.items()}
    assert depends == {
        "preprocess-2": set(),
        "tfrecord-2": {"preprocess-2"},
        "train-2": {"tfrecord-2"},
        "register-2": {"tfrecord-2", "train-2"},
    }
    given = {name: each["inputs"]["parameters"] for name, each in tasks.items()}
    told = {
        name: values["refitting"]["runtimeValue"]["constant"] for name, values in given.items() if "refitting" in values
    }
    assert told == {"preprocess-2": True, "train-2": True, "register-2": True}
    assert given["train-2"]["epochs"] == {"componentInputParameter": "pipelinechannel--register-epochs"}


def test_data_that_come_with_a_test_split_have_no_refit(compiled_ir: Callable[[Pipeline], str]) -> None:
    pipeline = Pipeline(TRAINING, "dlrm")
    tasks = next(yaml.load_all(compiled_ir(pipeline), yaml.CSafeLoader))["root"]["dag"]["tasks"]
    assert set(tasks) == set(PIPELINES[TRAINING])
    assert pipeline_parameters(Pipeline("retraining", "dlrm"))["refit"].default is False
    with pytest.raises(KfrecError, match=r"^parameter refit=True: data set \w+ cannot train on what it tests on"):
        checked({"refit": True}, pipeline)


def test_retrievals_and_schedules_refit_unless_a_user_says_otherwise() -> None:
    refits = {each: pipeline_parameters(each)["refit"].default for each in (
        Pipeline(TRAINING, "sim"), Pipeline("retraining", "sim"), Pipeline(TRAINING, "sasrec")
    )}  # fmt: skip
    assert list(refits.values()) == [False, True, True]


def test_no_step_installs_packages_when_it_runs(compiled: dict) -> None:
    commands = [" ".join(e["container"]["command"]) for e in compiled["deploymentSpec"]["executors"].values()]
    assert len(commands) == len(PIPELINES[TRAINING])
    assert not any("pip install" in command for command in commands)


def test_a_pipeline_asks_for_nothing_of_another_model() -> None:
    known = {model: set(pipeline_parameters(Pipeline(TRAINING, model))) for model in ("sim", "din", "dien")}
    assert "stage_one_mlp_dims" in known["sim"] and "mlp_dims" not in known["sim"]
    assert known["din"] - known["sim"] == {"mlp_dims"} and "long_seq_length" not in known["din"]
    assert known["dien"] - known["din"] == {
        "long_seq_length",
        "aux_mlp_dims",
        "aux_loss_weight",
        "aux_loss_padding",
    }
    assert not any("model_type" in names for names in known.values())


def test_steps_are_told_model_and_task(compiled: dict) -> None:
    tasks = compiled["root"]["dag"]["tasks"]
    told = {
        step: [tasks[step]["inputs"]["parameters"][name]["runtimeValue"]["constant"] for name in STEPS[step].chosen_by]
        for step in ("train", "evaluate", "register")
    }
    assert told == {"train": ["sim", "click"], "evaluate": ["click"], "register": ["click", "sim"]}


@pytest.mark.parametrize("model", ["sim", "dien"])
def test_histories_that_a_model_cannot_divide_are_rejected_before_any_step(model: str) -> None:
    with pytest.raises(KfrecError, match="long_seq_length=90 leaves no short history of max_sequence_length=50"):
        checked({"max_sequence_length": 50}, Pipeline(TRAINING, model))
    checked({"max_sequence_length": 50, "long_seq_length": 40}, Pipeline(TRAINING, model))


def test_a_model_that_reads_the_whole_history_takes_any_length() -> None:
    checked({"max_sequence_length": 50}, Pipeline(TRAINING, "din"))


def test_workers_that_fill_no_whole_pods_are_rejected_before_any_step() -> None:
    with pytest.raises(KfrecError, match=r"^workers=1 do not fill pods of workers_per_pod=8; use 8 workers$"):
        checked({"workers_per_pod": 8}, Pipeline(), cluster_defaults(Pipeline()))
    checked({"workers_per_pod": 8}, Pipeline())  # one machine has no pods
