"""What Argo's retries make of a train step that has failed: it starts the step again, whatever its exit status."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.artifacts import Artifact, open_artifact
from components.artifacts.remote import publish_remote
from components.errors import KfrecError
from components.parameters import build
from components.steps.catalog import STEPS
from components.train.step import run
from pipelines.defaults import Pipeline
from tests.fakes.argo_retries import retried
from tests.fakes.object_stores import BUCKET
from tests.train.dataset import write_dataset
from tests.train.jobs.conftest import Place
from tests.train.jobs.test_launcher import Make, python
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("store")]
MODEL = f"gs://{BUCKET}/run-1/model"
DIVERGED = "the loss is not finite at step 7; lower the learning rate"


def says(message: str, **more: object) -> str:
    """The code of a worker that reports an error of its input or its surroundings."""
    event = json.dumps({"kfrec": "error", "step": "train", "message": message, **more})
    return f"print('[1,0]<stdout>:' + {event!r}); sys.exit({4 if more else 2})"


@pytest.fixture
def policy(compiled_ir: Callable[[Pipeline], str]) -> dict[str, Any]:
    """The retry policy of the compiled pipeline's train step."""
    spec = next(yaml.load_all(compiled_ir(Pipeline()), yaml.CSafeLoader))
    return spec["root"]["dag"]["tasks"]["train"]["retryPolicy"]


@pytest.fixture
def records(gcs_bucket: Any, tmp_path: Path) -> Artifact:
    folder = write_dataset(tmp_path / "tfrecord", train=10, test=10)
    publish_remote(folder, f"gs://{BUCKET}/tfrecord")
    return open_artifact(folder)


def step(here: Place, records: Artifact, run_id: str = "run-1", **changed: Any) -> Callable[[], object]:
    """One process of the step."""
    given = {"global_batch_size": 20, "workers": 2, "gpus_per_worker": 0, "run_id": run_id, "restarts": 0, **changed}
    places = {"launcher": "mpijob", "tfrecord_uri": f"gs://{BUCKET}/tfrecord", "model_uri": MODEL}
    parameters: Any = build(STEPS["train"].parameters({}), {**given, **places})

    def process() -> object:
        launcher = here.launcher(restarts=given["restarts"], deadline=given.get("deadline", 86_400))
        return run(parameters, tfrecord=records.path, model=here.folder / "model", launcher=launcher)

    return process


@pytest.mark.parametrize("restarts", [0, 2])
def test_bad_input_and_a_diverged_loss_are_trained_once(
    place: Make, records: Artifact, policy: dict[str, Any], restarts: int
) -> None:
    here = place(python(says(DIVERGED)))
    errors = retried(policy, step(here, records, restarts=restarts))
    assert here.operator.tries == 1 and here.api.live_jobs() == []
    assert len(errors) == 1 + int(policy["maxRetryCount"])
    assert str(errors[0]) == DIVERGED
    for error in errors[1:]:
        assert isinstance(error, KfrecError) and str(error).startswith(f"{DIVERGED}; ")
        assert "start a new run" in str(error) and f"{MODEL}/_failed.json" in str(error) and "\n" not in str(error)


def test_the_budget_of_restarts_is_spent_once(place: Make, records: Artifact, policy: dict[str, Any]) -> None:
    here = place(python("sys.exit(255)"))
    errors = retried(policy, step(here, records, restarts=1))
    assert here.operator.tries == 2 and here.api.live_jobs() == []
    assert all("2 jobs have failed, raise restarts for more" in str(error) for error in errors)


def test_a_job_that_a_user_deleted_is_not_created_again(place: Make, records: Artifact, policy: dict[str, Any]) -> None:
    here = place(python("time.sleep(3600)"))

    def delete() -> None:
        wait_for(lambda: here.operator.tries)
        here.api.delete_job(here.api.live_jobs()[0])

    user = threading.Thread(target=delete)
    user.start()
    errors = retried(policy, step(here, records))
    user.join()
    assert here.operator.tries == 1 and here.api.live_jobs() == []
    assert all("was deleted by someone else" in str(error) for error in errors)


def test_another_run_is_not_held_back(place: Make, records: Artifact, policy: dict[str, Any]) -> None:
    here = place(python(says(DIVERGED)))
    retried(policy, step(here, records))
    retried(policy, step(here, records, run_id="run-2"))
    assert here.operator.tries == 2


def test_a_training_by_hand_is_not_held_back(place: Make, records: Artifact) -> None:
    here = place(python(says(DIVERGED)))
    for _ in range(2):
        with pytest.raises(KfrecError, match=f"^{DIVERGED}$"):
            step(here, records, run_id="")()
    assert here.operator.tries == 2


def test_a_store_that_was_away_is_no_reason_to_stop(place: Make, records: Artifact, policy: dict[str, Any]) -> None:
    """Workers then end with another status; the step restarts them, and if that is not enough, Argo the step."""
    away = "gs://b/model/ckpt-3.index: gave up after 6 tries (503)"
    here = place(python(says(away, unreachable=True)))
    errors = retried(policy, step(here, records, restarts=1))
    assert here.operator.tries == 2 * (1 + int(policy["maxRetryCount"])) and here.api.live_jobs() == []
    assert all(away in str(error) and "start a new run" not in str(error) for error in errors)
