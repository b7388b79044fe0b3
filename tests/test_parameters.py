from typing import Any

import pytest

from components.errors import KfrecError
from components.parameters import as_plain, build, parameters_of
from components.steps.catalog import STEPS, worker_parameters
from components.steps.parser import chosen

# Names and defaults of the public SIM documentation's parameter table; folders that differ by design are left out.
PUBLISHED = {
    "model_type": "sim",
    "embedding_dim": 16,
    "stage_one_mlp_dims": "200",
    "stage_two_mlp_dims": "200,80",
    "aux_mlp_dims": "100,50",
    "feature_spec": "feature_spec.yaml",
    "optimizer": "adam",
    "lr": 0.01,
    "weight_decay": 0.0,
    "epochs": 3,
    "global_batch_size": 131072,
    "dropout_rate": -1.0,
    "amp": False,
    "xla": False,
    "drop_remainder": False,
    "disable_cache": False,
    "repeat_count": 0,
    "prefetch_train_size": -1,
    "prefetch_test_size": -1,
    "train_dataset_size": 11796480,
    "long_seq_length": 90,
    "prebatch_train_size": 0,
    "prebatch_test_size": 0,
    "log_filename": "log.json",
    "save_checkpoint_path": "",
    "load_checkpoint_path": "",
    "mode": "train",
    "benchmark": False,
    "benchmark_warmup_steps": 20,
    "benchmark_steps": 200,
    "affinity": "socket_unique_interleaved",
    "inter_op_parallelism": 0,
    "intra_op_parallelism": 0,
    "seed": -1,
}


# Those of SIM that spread less from seed to seed; docs/results.md has the figures.
STEADIER = {"epochs": 6, "dropout_rate": 0.4}


def test_the_worker_has_every_published_parameter_with_its_default_but_for_two() -> None:
    defaults = {p.name: p.plain_default for p in parameters_of(worker_parameters("sim"))}
    assert {name: defaults.get(name, "absent") for name in PUBLISHED} == PUBLISHED | STEADIER


def test_text_becomes_typed_values() -> None:
    parameters: Any = build(
        worker_parameters("sim"), {"lr": "0.5", "amp": "true", "epochs": "2", "stage_two_mlp_dims": "8,4"}
    )
    assert (parameters.lr, parameters.amp, parameters.epochs) == (0.5, True, 2)
    assert parameters.stage_two_mlp_dims == (8, 4)


def test_plain_values_build_the_same_parameters_again() -> None:
    parameters: Any = build(worker_parameters("sim"), {"aux_mlp_dims": "7", "xla": True})
    assert build(worker_parameters("sim"), as_plain(parameters)) == parameters


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("epochs", "two", "epochs='two' is not a whole number"),
        ("epochs", "1.5", "epochs='1.5' is not a whole number"),
        ("epochs", 0, "epochs=0 must be at least 1"),
        ("lr", "fast", "lr='fast' is not a number"),
        ("amp", "maybe", "amp='maybe' is not true or false"),
        ("stage_two_mlp_dims", "200,x", "stage_two_mlp_dims='200,x' is not whole numbers separated by commas"),
        ("stage_two_mlp_dims", [200.7, 80], "stage_two_mlp_dims=[200.7, 80] is not whole numbers separated by commas"),
        ("dropout_rate", 1, "dropout_rate=1 must be at most 0.99"),
        ("epoch", 1, "unknown parameter epoch: did you mean epochs?"),
    ],
)
def test_a_bad_value_is_one_line_with_name_and_remedy(name: str, value: object, line: str) -> None:
    with pytest.raises(KfrecError) as raised:
        build(worker_parameters("sim"), {name: value})
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_negative_history_longer_than_the_positive_one_names_both_parameters() -> None:
    build(STEPS["preprocess"].parameters(), {"negative_sequence_length": 100})
    with pytest.raises(KfrecError) as raised:
        build(STEPS["preprocess"].parameters(), {"negative_sequence_length": 500})
    assert "negative_sequence_length=500 is above max_sequence_length=100; " in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_defaults_of_every_step_fit_each_other() -> None:
    for step in STEPS.values():
        build(step.parameters(), {})


def test_every_parameter_has_help_and_every_number_that_counts_has_a_unit() -> None:
    for step in STEPS.values():
        for parameter in parameters_of(step.parameters()):
            assert parameter.help and not parameter.help.endswith("."), parameter.name
            assert "default" in parameter.description, parameter.name


@pytest.mark.parametrize(("task", "has_k"), [("", True), ("ranking", True), ("click", False)])
def test_the_train_step_has_the_parameters_of_the_task_that_is_chosen(task: str, has_k: bool) -> None:
    names = {parameter.name for parameter in parameters_of(worker_parameters("wide_and_deep", task))}
    assert ("map_k" in names) == has_k and "deep_dropout" in names


@pytest.mark.parametrize(
    "words", [["--task", "ranking", "--model_type=din"], ["--model_type", "din", "--task=ranking"]]
)
def test_the_choice_of_a_model_and_a_task_is_read_ahead_of_their_parameters(words: list[str]) -> None:
    assert chosen(STEPS["train"], words) == {"model_type": "din", "task": "ranking"}
    assert chosen(STEPS["train"], []) == {"model_type": "sim", "task": ""}


def test_a_task_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(
        KfrecError, match=r"parameter model_type='din', task='clck': no task 'clck': did you mean click\?"
    ):
        worker_parameters("din", "clck")
