"""Several register steps at once, and ones that are killed, with MLflow's real stores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion

from components.register.comparison import Candidate, Verdict
from components.register.registry import Registry
from components.steps.command import command
from components.tracking.run import TrackedRun
from components.tracking.store import connect
from tests.fakes.small_shop import ignorant, make_data, make_model, quality
from tests.waiting import wait_for

_ROOT = Path(__file__).parents[2]
BELIEFS: dict[str, Callable[[str], float]] = {"dull": lambda name: 0.5, "fair": ignorant, "good": quality}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """Data and models, each evaluated."""
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", rows=1500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        for name, belief in BELIEFS.items():
            make_model(folder / name, data, belief=belief)
            inputs = [f"--tfrecord={data}", f"--model={folder / name}", f"--evaluation={folder / name}-evaluation"]
            assert command("evaluate", [*inputs, "--experiment=shop", f"--run_id={name}"]) == 0
    return folder


def arguments_of(shop: Path, registered: str, model: str, output: Path, *more: str) -> list[str]:
    return [
        *(f"--tfrecord={shop / 'tfrecord'}", f"--model={shop / model}", f"--evaluation={shop / model}-evaluation"),
        *(f"--registration={output / model}", f"--registered_model={registered}", "--experiment=shop"),
        *(
            f"--run_id={registered}-{model}",
            "--auc_floor=0.4",
            "--require_baseline=false",
            "--bootstrap_samples=100",
            *more,
        ),
    ]


class Steps:
    """Register steps as processes; see promoting.py."""

    def __init__(self, parent: subprocess.Popen[str]) -> None:
        self._parent = parent

    def start(self, log: Path, *words: str) -> Callable[[], int]:
        """Starts one; the function it returns waits for its end and gives its return code."""
        assert self._parent.stdin is not None
        print(json.dumps([dict(os.environ), str(log), words]), file=self._parent.stdin, flush=True)
        status = log.with_suffix(".status")

        def ended() -> int:
            wait_for(status.exists)
            return int(status.read_text())

        return ended


@pytest.fixture(scope="module")
def steps() -> Iterator[Steps]:
    command_line = [sys.executable, "-m", "tests.register.promoting"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(command_line, env=environment, stdin=subprocess.PIPE, text=True) as parent:
        yield Steps(parent)
        assert parent.stdin is not None
        parent.stdin.close()


def aliases(client: MlflowClient, registered: str) -> dict[str, int]:
    return {alias: int(version) for alias, version in client.get_registered_model(registered).aliases.items()}


def at_once(steps: Steps, shop: Path, registered: str, models: Sequence[str], folder: Path) -> None:
    """Registers two models so that both have decided, in this order, when the first of them moves an alias."""
    place = folder / "meeting"
    place.mkdir()
    ends, logs = [], [folder / "first.log", folder / "second.log"]
    for log, model in zip(logs, models, strict=True):
        ends.append(steps.start(log, "meet", str(place), *arguments_of(shop, registered, model, folder)))
        wait_for(lambda: list(place.iterdir()) or log.with_suffix(".status").exists())  # noqa: B023
    assert [end() for end in ends] == [0, 0], [log.read_text() for log in logs]


@pytest.mark.slow
def test_of_two_that_are_promoted_at_once_the_better_one_is_the_champion(
    store: str, shop: Path, tmp_path: Path, steps: Steps
) -> None:
    registered, client = "at once", MlflowClient(store, store)
    assert command("register", arguments_of(shop, registered, "dull", tmp_path)) == 0
    assert aliases(client, registered) == {"champion": 1}
    # The worse one moves the alias last.
    at_once(steps, shop, registered, ("good", "fair"), tmp_path)
    assert aliases(client, registered)["champion"] == 2


@pytest.mark.slow
def test_of_two_first_models_at_once_the_better_one_is_the_champion_in_postgresql(
    postgres: str, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Steps
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", postgres)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.chdir(tmp_path)
    at_once(steps, shop, "first at once", ("fair", "good"), tmp_path)
    assert aliases(connect(), "first at once")["champion"] == 2


def test_two_steps_set_an_alias_for_the_first_time_at_once(store: str) -> None:
    client, name = MlflowClient(store, store), "first alias"
    run = client.create_run(client.create_experiment(name))
    client.create_registered_model(name)
    held = [client.create_model_version(name, "file:///none", run.info.run_id) for _ in range(2)]
    for _ in range(30):
        start = threading.Barrier(2)

        def move(version: ModelVersion, start: threading.Barrier = start) -> None:
            registry = Registry(name, TrackedRun(connect(), run))
            start.wait()
            registry.set_alias("challenger", version)

        with ThreadPoolExecutor() as threads:
            list(threads.map(move, held))
        client.delete_registered_model_alias(name, "challenger")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["set_model_version_tag", "set_registered_model_alias"])
def test_a_step_that_is_killed_leaves_one_champion_and_is_completed_by_the_next(
    store: str, shop: Path, tmp_path: Path, method: str, steps: Steps
) -> None:
    client, registered = MlflowClient(store, store), f"killed at {method}"
    assert command("register", arguments_of(shop, registered, "fair", tmp_path)) == 0
    arguments = arguments_of(shop, registered, "good", tmp_path)
    assert steps.start(tmp_path / "killed.log", "kill", method, *arguments)() == -signal.SIGKILL
    assert aliases(client, registered) == {"champion": 1}
    assert command("register", arguments) == 0
    assert aliases(client, registered) == {"champion": 2}
    assert len(client.search_model_versions(f"name = '{registered}'")) == 2


@pytest.mark.slow
def test_a_challenger_that_is_killed_while_it_becomes_champion_is_completed_by_the_next(
    store: str, shop: Path, tmp_path: Path, steps: Steps
) -> None:
    client, registered = MlflowClient(store, store), "killed between aliases"
    assert command("register", arguments_of(shop, registered, "fair", tmp_path)) == 0
    assert command("register", arguments_of(shop, registered, "good", tmp_path, "--promotion_margin=0.9")) == 0
    client.delete_registered_model_alias(registered, "champion")  # a user's; the next step decides anew
    arguments = arguments_of(shop, registered, "good", tmp_path)
    assert (
        steps.start(tmp_path / "killed.log", "kill", "delete_registered_model_alias", *arguments)() == -signal.SIGKILL
    )
    assert aliases(client, registered) == {"champion": 2, "challenger": 2}
    assert command("register", arguments) == 0
    assert aliases(client, registered) == {"champion": 2}


@pytest.mark.slow
def test_a_decision_against_a_champion_that_was_replaced_meanwhile_is_made_again(
    store: str, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, registered = MlflowClient(store, store), "replaced meanwhile"
    assert command("register", arguments_of(shop, registered, "dull", tmp_path)) == 0
    assert command("register", arguments_of(shop, registered, "good", tmp_path, "--promotion_margin=0.9")) == 0
    compare, seen = Candidate.against, []

    def meanwhile(candidate: Candidate, registry: Any, champion: Any) -> Verdict:
        seen.append(int(champion.version))
        verdict = compare(candidate, registry, champion)
        if len(seen) == 1:
            assert verdict.decision.alias == "champion"
            client.set_registered_model_alias(registered, "champion", "2")
        return verdict

    monkeypatch.setattr(Candidate, "against", meanwhile)
    assert command("register", arguments_of(shop, registered, "fair", tmp_path)) == 0
    assert seen == [1, 2]
    assert aliases(client, registered) == {"champion": 2, "challenger": 3}


@pytest.mark.slow
def test_a_champion_that_was_put_back_by_hand_is_not_replaced_by_an_earlier_promotion(
    store: str, shop: Path, tmp_path: Path
) -> None:
    client, registered = MlflowClient(store, store), "put back"
    for model in ("dull", "good"):
        assert command("register", arguments_of(shop, registered, model, tmp_path)) == 0
    client.set_registered_model_alias(registered, "champion", "1")
    assert command("register", arguments_of(shop, registered, "fair", tmp_path)) == 0
    assert aliases(client, registered)["champion"] == 3
