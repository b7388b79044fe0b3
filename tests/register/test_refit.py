"""Whether a refit is published in place of the model that was judged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from components.errors import KfrecError
from components.evaluate.step import run as evaluate
from components.find.step import run as find
from components.metrics import Interval
from components.register.comparison import Candidate
from components.register.refit import decided
from components.register.step import run as register
from components.steps.catalog import STEPS
from components.tasks import Difference
from components.tasks.next_item import TASK
from tests.fakes.small_shop import NAMES, ignorant, make_data, make_model, quality


def wrong(name: str) -> float:
    return 1 - quality(name)


def broken(name: str) -> float:
    return float("nan")


class Shop:
    """The model that is judged knows every second item; its refit knows what the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, make_data(folder / "tfrecord", rows=1500)
        # The refit's data: the same samples, with the ids of a vocabulary of its own.
        self.everything = make_data(folder / "everything", rows=1500, names=NAMES[::-1])
        self.model("judged", ignorant, self.data)
        parameters = STEPS["evaluate"].of(experiment="shop", run_id="judged")
        evaluate(parameters, tfrecord=self.data, model=folder / "judged", evaluation=folder / "evaluation")

    def model(self, name: str, belief: Callable[[str], float], data: Path, **options: Any) -> Path:
        make_model(self.folder / name, data, belief=belief, **options)
        return self.folder / name

    def register(self, registered: str, model: str, *, refitting: bool = False, **changed: Any) -> dict[str, Any]:
        parameters = STEPS["register"].of(
            registered_model=registered, experiment="shop", run_id=f"run-of-{registered}", require_baseline=False,
            refitting=refitting, **changed,
        )  # fmt: skip
        out = self.folder / f"{registered}-registration"
        data = self.everything if refitting else self.data
        folders = dict(tfrecord=data, model=self.folder / model, evaluation=self.folder / "evaluation")
        results = register(parameters, **folders, registration=out)
        return json.loads((out / "registration.json").read_text()) | {"results": results}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Shop:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        made = Shop(tmp_path_factory.mktemp("shop"))
        for name, belief in (("better", quality), ("worse", wrong), ("broken", broken)):
            made.model(name, belief, made.everything, names=NAMES[::-1])
        return made


def champion(store: str, registered: str) -> Any:
    client = MlflowClient(store, registry_uri=store)
    return client.get_model_version_by_alias(registered, "champion")


def test_a_refit_that_is_no_worse_takes_the_place_of_its_judged_twin(shop: Shop, store: str) -> None:
    judged = shop.register("published", "judged", refit=True)
    result = shop.register("published", "better", refitting=True)
    assert (judged["version"], result["version"], result["alias"]) == (1, 2, "champion")
    assert result["results"]["refit"] and result["score"] == judged["score"]
    held = champion(store, "published")
    assert (int(held.version), held.tags["kfrec.judged_as"]) == (2, "1")
    assert held.tags["kfrec.data"] == str(shop.everything)


@pytest.mark.parametrize("refit", ["worse", "broken"])
def test_a_refit_that_is_worse_by_more_than_chance_is_not_registered_and_the_run_says_so(
    shop: Shop, store: str, refit: str
) -> None:
    shop.register(f"kept-{refit}", "judged")
    result = shop.register(f"kept-{refit}", refit, refitting=True)
    assert (result["version"], result["alias"], result["results"]["refit"]) == (1, "champion", False)
    assert result["reason"].startswith("The refit of version 1 is not published: ")
    assert ("worse by" if refit == "worse" else "not finite") in result["reason"]
    client = MlflowClient(store, registry_uri=store)
    assert len(client.search_model_versions(f"name = 'kept-{refit}'")) == 1
    assert int(champion(store, f"kept-{refit}").version) == 1


def test_a_refit_that_serves_nearly_all_users_alike_is_published() -> None:
    """Of three users whom the two serve differently there is no interval, so nothing says that it is worse."""
    nothing: Any = None
    candidate = Candidate(nothing, TASK, nothing, Path(), {}, {}, 0.51)
    difference = Difference(TASK.primary, 0.50, 0.51, Interval(-0.01, math.nan, math.nan, units=3), 0.95)
    decision = decided(candidate, 1, difference, "everything")
    assert decision.alias == "champion" and "worse by 0.0100 (no interval)" in decision.reason


def test_later_models_are_compared_with_the_judged_twin(shop: Shop, store: str) -> None:
    shop.register("compared-refitted", "judged")
    shop.register("compared-refitted", "better", refitting=True)
    shop.model("next", quality, shop.data)
    folder = shop.folder / "next-evaluation"
    parameters = STEPS["evaluate"].of(experiment="shop", run_id="next")
    evaluate(parameters, tfrecord=shop.data, model=shop.folder / "next", evaluation=folder)
    parameters = STEPS["register"].of(registered_model="compared-refitted", experiment="shop", require_baseline=False)
    folders = dict(tfrecord=shop.data, model=shop.folder / "next", evaluation=folder)
    register(parameters, **folders, registration=shop.folder / "next-registration")
    result = json.loads((shop.folder / "next-registration" / "registration.json").read_text())
    # The refit's own score would be that of this model, which would then stay a challenger.
    assert (result["version"], result["champion_version_before"], result["alias"]) == (3, 2, "champion")


def test_a_step_that_runs_again_leaves_the_refit_in_its_place(shop: Shop, store: str) -> None:
    first = shop.register("again-refitted", "judged")
    shop.register("again-refitted", "better", refitting=True)
    second = shop.register("again-refitted", "judged", promotion_margin=0.5)
    assert (second["alias"], second["reason"]) == (first["alias"], first["reason"])
    assert shop.register("again-refitted", "better", refitting=True)["version"] == 2
    client = MlflowClient(store, registry_uri=store)
    assert {name: int(held) for name, held in client.get_registered_model("again-refitted").aliases.items()} == {
        "champion": 2
    }


def test_a_refit_of_a_former_champion_is_not_published(shop: Shop, store: str) -> None:
    shop.register("former", "judged")
    client = MlflowClient(store, registry_uri=store)
    client.delete_registered_model_alias("former", "champion")
    result = shop.register("former", "better", refitting=True)
    assert "version 1 is no longer the champion" in result["reason"] and not result["results"]["refit"]


def test_a_refit_of_what_was_never_registered_is_refused(shop: Shop, store: str) -> None:
    with pytest.raises(KfrecError, match="its model is not registered as unknown; register it first"):
        shop.register("unknown", "better", refitting=True)


def test_a_retraining_starts_from_the_judged_twin(shop: Shop, store: str, tmp_path: Path) -> None:
    shop.register("started", "judged")
    shop.register("started", "better", refitting=True)
    (tmp_path / "logs" / "monday").mkdir(parents=True)
    for name in ("reviews_A.json", "meta_A.json"):
        (tmp_path / "logs" / "monday" / name).write_text("{}\n")
    parameters = STEPS["find"].of(data_prefix=str(tmp_path / "logs"), registered_model="started", force=True)
    find(parameters, champion=tmp_path / "champion")
    vocabularies = [
        (folder / "vocabulary" / "item.parquet").read_bytes()
        for folder in (shop.folder / "judged", tmp_path / "champion")
    ]
    assert vocabularies[0] == vocabularies[1]


def test_a_refit_of_data_that_cannot_train_on_their_test_is_refused_in_a_line(store: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=400, dataset="outbrain")
    make_model(tmp_path / "model", data)
    read = dict(tfrecord=data, model=tmp_path / "model")
    evaluate(STEPS["evaluate"].of(experiment="shop"), **read, evaluation=tmp_path / "evaluation")
    parameters = STEPS["register"].of(
        registered_model="no-refit", experiment="shop", require_baseline=False, auc_floor=0.01, refit=True
    )
    told = register(parameters, **read, evaluation=tmp_path / "evaluation", registration=tmp_path / "out")
    assert not told["refit"]
    assert "no refit, because data set outbrain cannot train on what it tests on; set refit=false" in told["summary"]
