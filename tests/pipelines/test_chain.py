"""Two trainings in one pipeline, of which the second starts from the model of the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import KfrecError
from components.registry import model
from components.steps.command import DEFAULTS
from pipelines.chain import FIRST, Chain, chain_inputs, chain_of, divided
from pipelines.cli import main
from pipelines.cluster.submit import checked_for_cluster
from pipelines.compilation import compiled
from pipelines.defaults import RETRAINING, TRAINING, Pipeline, cluster_defaults
from pipelines.form import field_names
from pipelines.parameters import pipeline_parameters
from pipelines.task_settings import load_settings
from tests.pipelines.chains import chain_parameters

MakeOnce = Callable[[str, Callable[[Path], None]], Path]


@pytest.fixture(scope="module", params=["electra_qa", "electra"])
def chain(request: pytest.FixtureRequest) -> Chain:
    return chain_of("electra", Pipeline(TRAINING, request.param))


@pytest.fixture(scope="module")
def spec(chain: Chain, made_once: MakeOnce) -> dict[str, Any]:
    def write(folder: Path) -> None:
        (folder / "ir.yaml").write_text(compiled(chain, load_settings()))

    return next(yaml.load_all((made_once(chain.name, write) / "ir.yaml").read_text(), yaml.CSafeLoader))


@pytest.mark.slow
def test_the_second_training_begins_with_the_model_and_the_vocabulary_of_the_first(
    chain: Chain, spec: dict[str, Any]
) -> None:
    tasks = spec["root"]["dag"]["tasks"]
    first, second = (next(t for n, t in tasks.items() if n.startswith(each.kfp_name)) for each in chain)
    if chain.first.model == chain.second.model:  # KFP numbers equal names
        first, second = sorted(tasks.values(), key=lambda task: len(task.get("dependentTasks", ())))
    (producer,) = second["dependentTasks"]
    link = {"taskOutputParameter": {"outputParameterKey": "Output", "producerTask": producer}}
    given = second["inputs"]["parameters"]
    assert given[chain.link] == given["workflow"] == link
    assert chain.link == ("continue_path" if chain.second.model == "electra" else "warm_start_path")
    assert first["inputs"]["parameters"]["train_options"] == {"componentInputParameter": "first_train_options"}
    assert second["inputs"]["parameters"]["train_options"] == {"componentInputParameter": "train_options"}
    assert [set(tasks) for tasks in _trainings(spec)] == [set(Pipeline().steps)] * 2


def _trainings(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks of each training, of the first one first."""
    parts = [c["dag"]["tasks"] for c in spec["components"].values() if "train" in c.get("dag", {}).get("tasks", {})]
    return sorted(parts, key=lambda tasks: "epochs" in tasks["train"]["inputs"]["parameters"])


def _defaults(tasks: dict[str, Any]) -> dict[str, Any]:
    """The options of all tasks with their defaults."""
    given = [task["inputs"]["parameters"][DEFAULTS]["runtimeValue"]["constant"] for task in tasks.values()]
    return {name: value for constant in given for name, value in constant.items()}


def test_every_parameter_of_both_is_in_the_ui_but_those_that_link_them(chain: Chain, spec: dict[str, Any]) -> None:
    shown = spec["root"]["inputDefinitions"]["parameters"]
    fields = {name: entry["defaultValue"] for name, entry in shown.items() if entry["parameterType"] != "STRUCT"}
    every = chain_parameters(chain, *map(cluster_defaults, chain))
    assert fields == {name: every[name].plain_default for name in fields}
    assert {"epochs", "source", "registered_model", "first_registered_model"} <= set(fields)
    steps = Pipeline().steps
    assert set(shown) - set(fields) == {f"{first}{step}_options" for first in ("", FIRST) for step in steps}
    first, second = (_defaults(part) for part in _trainings(spec))
    assert not {chain.link, "workflow"} & set(second) and "epochs" in first
    for shared in chain.shared:
        assert first[shared] == second[shared] == every[shared].plain_default
    names = {name.removeprefix(FIRST) for name in every} - set(field_names(chain.second))
    assert names <= {*first, *second}


def test_values_go_to_their_trainings(chain: Chain) -> None:
    first, second = divided(chain, {"first_epochs": 3, "epochs": 2, "encoder_layers": 4, "source": "squad"})
    assert first == {"epochs": 3, "encoder_layers": 4}
    assert second == {"epochs": 2, "encoder_layers": 4, "source": "squad"}


def test_submit_checks_the_values_of_both_trainings(chain: Chain) -> None:
    values = {"first_epochs": "3", "epochs": "2", "encoder_layers": "4"}
    assert checked_for_cluster(values, chain) == {"first_epochs": 3, "epochs": 2, "encoder_layers": 4}
    assert chain_inputs(chain, checked_for_cluster(values, chain)) == {
        "first_train_options": {"epochs": 3, "encoder_layers": 4},
        "epochs": 2,
        "train_options": {"encoder_layers": 4},
    }
    with pytest.raises(KfrecError, match="parameter epochs='many'"):
        checked_for_cluster({"first_epochs": "many"}, chain)
    with pytest.raises(KfrecError, match=f"parameter {chain.link}=gs://models/1: is the first model with --after"):
        checked_for_cluster({chain.link: "gs://models/1"}, chain)


def test_the_parameters_of_both_trainings_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "parameters",
                "--model",
                "electra_qa",
                "--after",
                "electra",
                "--set",
                "first_epochs=9",
                "--set",
                "epochs=4",
            ]
        )
        == 0
    )
    listed = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    names = [name for name, _ in listed]
    assert ["first_epochs", "9"] in listed and ["epochs", "4"] in listed
    assert len(names) == len(set(names)) and names.count("encoder_layers") == 1
    assert not {"warm_start_path", "first_encoder_layers", "workflow"} & set(names)


@pytest.mark.slow
def test_a_ranking_follows_a_retrieval_and_is_paired_with_its_registered_model() -> None:
    chain = chain_of("sasrec", Pipeline(TRAINING, "sim"))
    spec = next(yaml.load_all(compiled(chain, load_settings()), yaml.CSafeLoader))
    tasks = spec["root"]["dag"]["tasks"]
    retrieval, ranking = (next(task for n, task in tasks.items() if n.startswith(each.kfp_name)) for each in chain)
    assert len(ranking["dependentTasks"]) == 1 and "dependentTasks" not in retrieval
    name = {"componentInputParameter": "first_registered_model"}
    assert retrieval["inputs"]["parameters"]["registered_model"] == name == ranking["inputs"]["parameters"]["pair_with"]
    for task in (retrieval, ranking):
        assert task["inputs"]["parameters"]["source"] == {"componentInputParameter": "source"}
    # The epochs of a retrieval are an option in a chain, and those of its refit are still the judged model's.
    refits = [
        each["tasks"]["train-2"]["inputs"]["parameters"]
        for part in spec["components"].values()
        if "train-2" in (each := part.get("dag", {"tasks": {}}))["tasks"]
    ]
    assert len(refits) == 2
    for values in refits:
        assert values["epochs"] == {"componentInputParameter": "pipelinechannel--register-epochs"}
        assert "epochs" not in values["defaults"]["runtimeValue"]["constant"]
    shown = spec["root"]["inputDefinitions"]["parameters"]
    assert "pair_with" not in shown
    given = chain_inputs(chain, {"first_negatives": "none", "split": "last_item", "pair_retrieve": 7})
    assert given["first_preprocess_options"] == {"negatives": "none", "split": "last_item"}
    assert given["preprocess_options"] == {"split": "last_item"} and set(given) <= set(shown)
    assert [step for step, value in given.items() if "pair_retrieve" in value] == ["register_options"]


def test_two_stages_learn_from_the_same_raw_data() -> None:
    chain = chain_of("sasrec", Pipeline(TRAINING, "din", "events"))
    first, second = divided(chain, {"source": "logs", "split": "last_item", "epochs": 2, "first_negatives": "none"})
    assert chain.first.dataset == "events" and chain.linked == ("pair_with",)
    assert first == {"source": "logs", "split": "last_item", "negatives": "none"}
    assert second == {"source": "logs", "split": "last_item", "epochs": 2}
    assert chain.linking("folder", {"registered_model": "first stage"}) == {"pair_with": "first stage"}


def test_inherited_parameters_are_those_of_both_models() -> None:
    for name in ("electra", "electra_qa"):
        kept = model(name).inherited
        assert kept and set(kept) <= set(pipeline_parameters(Pipeline(TRAINING, "electra")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "sim", "--after", "electra"], "--after electra: model sim cannot start from its weights"),
        (["--model", "electra_qa", "--after", "din"], "--after din: model electra_qa cannot start from its weights"),
        (["--model", "dlrm", "--after", "sasrec"], "--after sasrec: model dlrm does not rank what it retrieves"),
        (["--model", "sasrec", "--after", "sasrec"], "--after sasrec: model sasrec does not rank what it retrieves"),
        (
            ["--model", "sim", "--set", "pair_with=a/b"],
            "parameter pair_with='a/b': give the name of a registered model",
        ),
        (
            ["--model", "sim", "--set", "pair_with=kfrec-ctr"],
            "parameter pair_with='kfrec-ctr' is registered_model, too",
        ),
        (["--model", "electra_qa", "--after", "elektra"], "no model 'elektra'"),
        (["--model", "electra_qa", "--after", "electra", "--set", "epochs=no"], "parameter epochs='no'"),
        (["--model", "electra_qa", "--after", "electra", "--resume", "last"], "--after starts two runs"),
        (["--model", "electra_qa", "--after", "electra", "--set", "first_epoch=1"], "epoch"),
    ],
)
def test_trainings_that_do_not_fit_are_refused_before_one_begins(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--workdir", str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_retraining_begins_with_no_other_training() -> None:
    with pytest.raises(KfrecError, match="--after electra: a retraining does not begin with another training"):
        chain_of("electra", Pipeline(RETRAINING, "electra_qa"))
