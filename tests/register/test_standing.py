"""``kfrec promote`` and ``rollback``, and that real register steps keep to what a person has decided."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from components.steps.command import command
from pipelines.cli import main
from tests.fakes.small_shop import ignorant, make_data, make_model, quality

BELIEFS = {"dull": lambda name: 0.5, "good": quality, "fair": ignorant}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """Data and models, each evaluated."""
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", rows=1500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        for name in ("dull", "good"):
            make_model(folder / name, data, belief=BELIEFS[name])
            inputs = [f"--tfrecord={data}", f"--model={folder / name}", f"--evaluation={folder / name}-evaluation"]
            assert command("evaluate", [*inputs, "--experiment=standing", f"--run_id={name}"]) == 0
    return folder


@pytest.fixture
def client(store: str) -> MlflowClient:
    return MlflowClient(store, store)


def register(shop: Path, name: str, model: str, output: Path, *more: str) -> dict[str, Any]:
    """Registers a model; calls with the same output are the same step."""
    arguments = [
        *(f"--tfrecord={shop / 'tfrecord'}", f"--model={shop / model}", f"--evaluation={shop / model}-evaluation"),
        *(f"--registration={output}", f"--registered_model={name}", f"--run_id={name}-{model}"),
        *("--experiment=standing", "--auc_floor=0.4", "--require_baseline=false", "--bootstrap_samples=100", *more),
    ]  # fmt: skip
    assert command("register", arguments) == 0
    registration: dict[str, Any] = json.loads((output / "registration.json").read_text())
    return registration


def aliases(client: MlflowClient, name: str) -> dict[str, int]:
    return {alias: int(version) for alias, version in client.get_registered_model(name).aliases.items()}


def test_a_version_that_was_rolled_back_stays_so_until_a_person_promotes_it(
    shop: Path, client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "back-and-forth"
    register(shop, name, "dull", tmp_path / "1")
    assert register(shop, name, "good", tmp_path / "2")["alias"] == "champion"
    capsys.readouterr()
    assert main(["rollback", name, "--because", "fewer orders"]) == 0
    assert capsys.readouterr().out == f"{name} version 1 is the champion again, instead of version 2\n"
    assert aliases(client, name) == {"champion": 1}
    tags = client.get_model_version(name, "2").tags
    assert tags["kfrec.rolled_back_because"] == "fewer orders" and tags["kfrec.rolled_back_by"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", tags["kfrec.rolled_back_at"])
    of_run = client.get_run(str(client.get_model_version(name, "2").run_id)).data.tags
    assert (of_run["kfrec.alias"], of_run["kfrec.rolled_back_because"]) == ("rolled back", "fewer orders")

    again = register(shop, name, "good", tmp_path / "3")
    assert (again["version"], again["alias"]) == (2, "challenger") and aliases(client, name)["champion"] == 1
    assert "because fewer orders, so only kfrec promote makes it the champion again." in again["reason"]
    capsys.readouterr()
    assert main(["models"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(name)]
    assert ["champion" in line for line in lines] == [True, False] and "challenger, rolled back" in lines[1]

    words = ["promote", name, "--version=2", "--approved-by", "Ada", "--because", "it was the mail"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{name} version 2 is the champion instead of version 1, approved by Ada\n"
    assert aliases(client, name) == {"champion": 2}
    tags = client.get_model_version(name, "2").tags
    assert (tags["kfrec.promoted_by"], tags["kfrec.champion_before"]) == ("Ada", "1")
    assert "kfrec.rolled_back_at" not in tags
    assert main(words) == 2
    assert "version 2 is the champion already; name another one with --version" in capsys.readouterr().err


def test_with_approval_required_the_champion_stays_until_a_person_promotes(
    shop: Path, client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, required = "approved-models", "--approval=required"
    register(shop, name, "dull", tmp_path / "1")
    found = register(shop, name, "good", tmp_path / "2", required)
    assert found["alias"] == "awaiting-approval" and found["reason"].endswith("It awaits approval, by kfrec promote.")
    assert aliases(client, name) == {"champion": 1, "awaiting-approval": 2}
    assert "version 2 is awaiting approval: " in capsys.readouterr().out
    assert register(shop, name, "good", tmp_path / "3", required)["alias"] == "awaiting-approval"
    assert main(["promote", name, "--approved-by=Ada", "--because=the report is good"]) == 0
    assert aliases(client, name) == {"champion": 2}
    assert register(shop, name, "good", tmp_path / "4", required)["alias"] == "champion"
    assert aliases(client, name) == {"champion": 2}


def made(client: MlflowClient, name: str, *tags: dict[str, str]) -> None:
    """Versions with these tags, the last of which is the champion."""
    run = client.create_run(client.create_experiment(name)).info.run_id
    client.create_registered_model(name)
    for each in tags:
        version = client.create_model_version(name, "file:///none", run, tags=each)
    client.set_registered_model_alias(name, "champion", version.version)


def decided(over: int | None) -> dict[str, str]:
    return {"kfrec.decision": json.dumps({"alias": "champion", "champion_version": over})}


def test_back_from_a_refit_is_back_from_what_it_is_the_refit_of(client: MlflowClient) -> None:
    name = "refit-and-back"
    made(client, name, decided(None), decided(1), decided(2) | {"kfrec.judged_as": "2"})
    assert main(["rollback", name, "--because=x"]) == 0
    assert aliases(client, name) == {"champion": 1}
    marks = ["kfrec.rolled_back_at" in client.get_model_version(name, str(each)).tags for each in (1, 2, 3)]
    assert marks == [False, True, True]


def test_back_twice_is_back_to_the_champion_before_the_champion_before(client: MlflowClient) -> None:
    name = "twice-back"
    made(client, name, decided(None), decided(1), decided(2))
    for champion in (2, 1):
        assert main(["rollback", name, "--because=x"]) == 0
        assert aliases(client, name) == {"champion": champion}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rollback", "hand-made"], "hand-made: nothing says which version was the champion before version 2;"),
        (["rollback", "hand-made", "--to=2"], "hand-made version 2 is the champion already; name another one"),
        (["rollback", "hand-made", "--to=9"], "hand-made version 9: not in the registry at sqlite:///"),
        (["rollback", "hand-made", "--to=x"], "--to x: no version of a model; give its number, see kfrec models"),
        (["rollback", "nobody-made"], "nobody-made has no champion at sqlite:///"),
        (["rollback", "hand-made", "--because= "], "--because is empty; say why in a few words"),
        (["promote", "hand-made", "--approved-by=a"], "hand-made: no version awaits approval, and there is no"),
        (["promote", "nobody-made", "--approved-by=a"], "nobody-made: not in the registry at sqlite:///"),
        (["promote", "hand-made", "--approved-by="], "--approved-by is empty; say who approves it"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_a_line(
    words: list[str], line: str, client: MlflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    if not client.search_registered_models("name = 'hand-made'"):
        made(client, "hand-made", {}, {})
    assert main([*words[:2], "--because=x", *words[2:]]) == 2
    assert line in capsys.readouterr().err
    assert aliases(client, "hand-made") == {"champion": 2}
