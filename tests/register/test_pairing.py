"""Two stages as one registered model, with the real register step and MLflow's real stores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import mlflow
import pandas as pd
import pytest
import requests
import uvicorn
from mlflow import MlflowClient
from mlflow.models import convert_input_example_to_serving_input
from mlflow.pyfunc import scoring_server

from components.errors import KfrecError
from components.evaluate.step import run as evaluate
from components.feature_spec import load_feature_spec
from components.register.logged import logged
from components.register.pairing import Registered, register_pair
from components.register.registry import Registry
from components.register.step import run as register
from components.scoring import describe_model, load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.model import MODEL_FILES
from components.scoring.pair import settings_of
from components.scoring.recommend import recommend
from components.scoring.two_stages import SECOND, TwoStages, Weights
from components.steps.catalog import STEPS
from components.tracking.run import tracked_run
from pipelines.cli import main
from tests.fakes.known_scores import add_counts, make_known_model, make_known_retriever
from tests.fakes.small_shop import NAMES, make_data
from tests.waiting import wait_for

# Users choose the later items, which the good models know.
GOOD = {name: place / 10 for place, name in enumerate(NAMES)}
BAD = {name: -value for name, value in GOOD.items()}
# Finds the later items, without an order.
FLAT = {name: float(place // 20) for place, name in enumerate(NAMES)}
CHOSEN = [(user, NAMES[:3], NAMES[-1 - user % 12]) for user in range(1, 41)]
RETRIEVED = 20
# Users choose few items, of which one stage knows the even ones and the other one the odd ones.
WANTED = NAMES[-4:]
EVEN, ODD = ({name: 5.0 for name in WANTED if int(name[1:]) % 2 == rest} for rest in (0, 1))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """Data and models: rankers, one of them with its evaluation, and retrievers; the good pair is registered."""
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", dataset="amazon_reviews", chosen=CHOSEN)
    add_counts(data, dict.fromkeys(NAMES, 7))
    make_known_model(folder / "ranker", data, GOOD)
    make_known_model(folder / "bad ranker", data, BAD)
    for name, scores in (("good", FLAT), ("exact", GOOD), ("bad", BAD)):
        make_known_retriever(folder / name, data, scores)
    clicks = make_data(folder / "clicks", dataset="amazon_reviews", rows=300)
    add_counts(clicks, dict.fromkeys(NAMES, 7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
        evaluated = STEPS["evaluate"].of(experiment="pairs", run_id="evaluated", control_samples=0)
        evaluate(evaluated, tfrecord=clicks, model=folder / "ranker", evaluation=folder / "evaluation")
        add_version(folder, "retriever", "good")
        add_version(folder, "ranker", "ranker")
        pair_up(folder, "served")
    return folder


def add_version(shop: Path, registered: str, model: str) -> None:
    """Registers a model as the champion."""
    with tracked_run("pairs", f"{registered}-{model}", model) as run:
        registry, exported = Registry(registered, run), describe_model(shop / model)
        held = registry.register(logged(exported, dict), [shop / model / name for name in MODEL_FILES], model)
        registry.set_alias("champion", held)


def pair_up(
    shop: Path, pair: str, digest: str = "of the records", records: str = "tfrecord", **changed: Any
) -> Registered | str:
    names = {"registered_model": "ranker", "pair_with": "retriever", "registered_pair": pair, "experiment": "pairs"}
    parameters = STEPS["register"].of(**names | {"pair_retrieve": RETRIEVED, "bootstrap_samples": 100} | changed)
    data = shop / records
    with tracked_run("pairs", f"pairing {pair}", pair) as run:
        return register_pair(parameters, load_feature_spec(data), str(data), digest, run)


def aliases(store: str, registered: str) -> Mapping[str, int]:
    found = MlflowClient(store, registry_uri=store).get_registered_model(registered).aliases
    return {alias: int(version) for alias, version in found.items()}


@pytest.mark.slow
def test_the_served_pair_lists_what_two_stages_recommend(shop: Path, store: str, tmp_path: Path) -> None:
    pair = pair_up(shop, "served")
    assert isinstance(pair, Registered) and aliases(store, "served") == {"champion": 1}
    stages = {"retriever": "retriever version 1", "ranker": "ranker version 1"}
    assert pair.facts == stages | {"retrieve": RETRIEVED, "weights": SECOND._asdict()}
    # The 12 chosen items are the last ones of 60, so the first 10 of each list have 10 of 12 of them.
    gains = [1 / math.log2(2 + place) for user, *_ in CHOSEN if (place := user % 12) < 10]
    assert pair.decision.score == pytest.approx(sum(gains) / len(CHOSEN))
    rows = pd.DataFrame({"user": ["U1", "nobody"], "history": [list(NAMES[-4:]), []]})
    model = mlflow.pyfunc.load_model("models:/served@champion")
    found = model.predict(rows, params={"top": 4})
    first, second = (Catalogue(load_raw_model(shop / name)) for name in ("good", "ranker"))
    expected = recommend(
        TwoStages(first, second, RETRIEVED), rows["user"].tolist(), rows["history"].tolist(), 4
    ).table.to_pandas()
    pd.testing.assert_frame_equal(found, expected)
    assert found["item"].tolist() == [*NAMES[-5:-9:-1], *NAMES[-1:-5:-1]]
    rows.to_json(tmp_path / "users.jsonl", orient="records", lines=True)
    command = ["recommend", "--model=served@champion", f"--users={tmp_path / 'users.jsonl'}", "--top=4"]
    assert main([*command, f"--output={tmp_path / 'lists.parquet'}"]) == 0
    written = pd.read_parquet(tmp_path / "lists.parquet")
    assert set(written["model"]) == {"served"} and set(written["version"]) == {"1"}
    pd.testing.assert_frame_equal(written[expected.columns], expected)


def test_its_serving_input_and_signature_are_users_and_histories(shop: Path, store: str) -> None:
    model = mlflow.pyfunc.load_model("models:/served@champion")
    assert model.metadata.signature.inputs.input_names() == ["user", "history"]
    asked = convert_input_example_to_serving_input(model.input_example)
    answer = scoring_server.invocations(asked, "application/json", model, model.metadata.get_input_schema())
    lists = json.loads(answer.response)["predictions"]
    assert [row["rank"] for row in lists] == [*range(1, len(lists) // 2 + 1)] * 2 and len(lists) == 2 * 20


@pytest.mark.slow
def test_lists_of_a_retrieval_model_name_their_users_and_hold_what_the_request_allows(shop: Path, store: str) -> None:
    rows = pd.DataFrame({"user": ["U1", "nobody"], "history": [list(NAMES[-4:]), []]})
    for name in ("retriever", "served"):
        model = mlflow.pyfunc.load_model(f"models:/{name}@champion")
        asked = {"top": 4, "candidates": list(NAMES[:9]), "exclude": [NAMES[3]]}
        request = json.dumps({"dataframe_split": rows.to_dict(orient="split"), "params": asked})
        answer = scoring_server.invocations(request, "application/json", model, model.metadata.get_input_schema())
        lists = pd.DataFrame(json.loads(answer.response)["predictions"])
        assert lists["user"].tolist() == ["U1"] * 4 + ["nobody"] * 4
        assert set(lists["item"]) <= {*NAMES[:3], *NAMES[4:9]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retriever=retriever@champion"], "--model served@champion is a pair, with a first stage of its own"),
        (["--top=21"], "--top 21 is above the 20 that served@champion retrieves"),
    ],
)
def test_recommend_refuses_what_a_pair_cannot_give(
    arguments: list[str], message: str, shop: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", "someone", "--history=B001", "--model=served@champion", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "retriever", "message"),
    [
        ("ranker@champion", "ranker@champion", "--retriever ranker@champion does not retrieve"),
        ("ranker@champion", "served@champion", "--retriever served@champion does not retrieve"),
        ("retriever@champion", "retriever@champion", "--model retriever@champion is a retrieval model, too"),
        ("ranker@champion", "retriever@best", "best"),
    ],
)
def test_stages_that_are_no_pair_are_refused_in_a_line(
    model: str, retriever: str, message: str, shop: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", "someone", "--history=B001", f"--model={model}", f"--retriever={retriever}"]) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert message in line


def test_the_pair_answers_over_http(shop: Path, store: str) -> None:
    app = scoring_server.init(mlflow.pyfunc.load_model("models:/served@champion"))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        rows = [{"user": "U1", "history": list(NAMES[-4:])}, {"user": "nobody", "history": []}]
        asked = {"dataframe_records": rows, "params": {"top": 4}}
        answer = requests.post(f"http://127.0.0.1:{port}/invocations", json=asked, timeout=60)
        refused = requests.post(
            f"http://127.0.0.1:{port}/invocations", json=asked | {"params": {"top": -1}}, timeout=60
        )
    finally:
        server.should_exit = True
        thread.join()
    assert answer.status_code == 200
    listed = [row["item"] for row in answer.json()["predictions"]]
    assert listed == [*NAMES[-5:-9:-1], *NAMES[-1:-5:-1]]
    assert refused.status_code == 400 and "top=-1 is below 0" in refused.json()["message"]


def test_both_stages_can_be_named_by_alias(shop: Path, store: str, tmp_path: Path) -> None:
    lists = tmp_path / "lists.parquet"
    stages = ["--model=models:/ranker@champion", "--retriever=models:/retriever@champion", "--retrieve=20"]
    assert main(["recommend", "someone", f"--history={NAMES[-1]}", *stages, "--top=3", f"--output={lists}"]) == 0
    assert pd.read_parquet(lists)["item"].tolist() == list(NAMES[-2:-5:-1])


def test_the_register_step_pairs_its_model_with_the_other_stage(shop: Path, store: str, tmp_path: Path) -> None:
    parameters = STEPS["register"].of(
        **{"registered_model": "paired ranker", "experiment": "pairs", "run_id": "step", "pair_with": "retriever"},
        **{"registered_pair": "of the step", "require_baseline": False, "auc_floor": 0.0, "bootstrap_samples": 100},
        pair_may_be_level=True,
    )
    folders = {"tfrecord": shop / "clicks", "model": shop / "ranker", "evaluation": shop / "evaluation"}
    said = register(parameters, **folders, registration=tmp_path / "registration")["summary"]
    assert "paired ranker version 1 is the champion" in said and "of the step version 1 is the champion" in said
    assert "of the step version 1" in json.loads((tmp_path / "registration" / "registration.json").read_text())["pair"]
    noted = json.loads((tmp_path / "registration" / "pair.json").read_text())
    assert (noted["registered_pair"], noted["ranker"]) == ("of the step", "paired ranker version 1")
    held = MlflowClient(store, registry_uri=store).get_model_version_by_alias("of the step", "champion")
    assert held.tags["kfrec.data"] == str((shop / "clicks").absolute())


@pytest.mark.slow
def test_a_pair_with_worse_lists_than_the_champion_pair_is_a_challenger(shop: Path, store: str) -> None:
    pair_up(shop, "judged")
    again = pair_up(shop, "judged")
    assert isinstance(again, Registered) and again.version == 1
    add_version(shop, "worse retriever", "bad")
    worse = pair_up(shop, "judged", pair_with="worse retriever")
    assert isinstance(worse, Registered) and worse.decision.alias == "challenger"
    assert worse.decision.score == 0 and "worse by" in worse.decision.reason
    assert aliases(store, "judged") == {"champion": 1, "challenger": 2}


@pytest.mark.slow
def test_a_pair_is_judged_again_on_newer_data(shop: Path, store: str) -> None:
    pair_up(shop, "nightly")
    first = pair_up(shop, "nightly", pair_retrieve=RETRIEVED + 1)
    same = pair_up(shop, "nightly", pair_retrieve=RETRIEVED + 1, pair_users=1)
    newer = pair_up(shop, "nightly", pair_retrieve=RETRIEVED + 1, digest="of newer records")
    assert isinstance(first, Registered) and isinstance(same, Registered) and isinstance(newer, Registered)
    assert (first.version, same.version, newer.version) == (2, 2, 2)
    assert first.decision.score == newer.decision.score != same.decision.score


def test_a_second_stage_that_makes_the_lists_worse_is_not_promoted(shop: Path, store: str) -> None:
    add_version(shop, "wrong ranker", "bad ranker")
    add_version(shop, "exact retriever", "exact")
    pair = pair_up(shop, "spoilt", registered_model="wrong ranker", pair_with="exact retriever")
    assert isinstance(pair, Registered) and aliases(store, "spoilt") == {"challenger": 1}
    # Of the last items, which are retrieved, it lists the first ones, and users chose the last twelve.
    assert pair.decision.score == 0
    assert "its order is worse by 0.3" in pair.decision.reason
    assert pair.decision.reason.endswith("than that of its first stage alone.")


def test_a_second_stage_that_is_level_with_the_first_is_promoted_only_where_that_is_allowed(
    shop: Path, store: str
) -> None:
    add_version(shop, "level retriever", "exact")
    refused = pair_up(shop, "level", pair_with="level retriever")
    assert isinstance(refused, Registered) and refused.decision.alias == "challenger"
    assert "than that of its first stage alone, so the second stage may not pay; pair_may" in refused.decision.reason
    allowed = pair_up(shop, "level", pair_with="level retriever", pair_may_be_level=True)
    assert isinstance(allowed, Registered) and (allowed.version, allowed.decision.alias) == (1, "champion")


@pytest.mark.slow
def test_the_validation_split_weighs_two_stages_that_know_different_items(shop: Path, store: str) -> None:
    chosen = [(user, NAMES[:3], WANTED[user % 4]) for user in range(1, 51)]
    data = make_data(shop / "weighed", dataset="amazon_reviews", chosen=chosen, validating=chosen)
    add_counts(data, dict.fromkeys(NAMES, 7))
    make_known_retriever(shop / "even", data, EVEN)
    make_known_model(shop / "odd", data, ODD)
    for name in ("even", "odd"):
        add_version(shop, name, name)
    named: dict[str, Any] = {"registered_model": "odd", "pair_with": "even", "pair_retrieve": len(NAMES)}
    pair = pair_up(shop, "weighed", records="weighed", **named)
    assert isinstance(pair, Registered) and pair.decision.alias == "champion"
    # All four are among the first four, and three of four were behind items that a stage does not know.
    assert pair.decision.score > 0.5
    weights = Weights(**pair.facts["weights"])
    assert weights.first > 0.5 and weights.second > 0.5
    again = pair_up(shop, "weighed", records="weighed", **named)
    assert isinstance(again, Registered) and (again.version, again.facts) == (pair.version, pair.facts)
    model = mlflow.pyfunc.load_model("models:/weighed@champion")
    found = model.predict(pd.DataFrame({"user": ["U1"], "history": [[]]}), params={"top": 4})
    assert set(found["item"]) == {*WANTED}
    stages = [Catalogue(load_raw_model(shop / name)) for name in ("even", "odd")]
    expected = recommend(TwoStages(stages[0], stages[1], len(NAMES), weights), ["U1"], [[]], 4).table.to_pandas()
    pd.testing.assert_frame_equal(found, expected)


def test_a_pair_of_an_earlier_kfrec_keeps_the_order_of_its_second_stage(tmp_path: Path) -> None:
    (tmp_path / "pair.json").write_text('{"retrieve": 7}')
    assert settings_of(tmp_path) == (7, SECOND)


@pytest.mark.parametrize("weights", ["[1, 0, 0]", '{"first": 1}', '{"first": 1, "second": NaN, "popularity": 0}'])
def test_damaged_weights_are_refused_in_a_line(weights: str, tmp_path: Path) -> None:
    (tmp_path / "pair.json").write_text(f'{{"retrieve": 7, "weights": {weights}}}')
    with pytest.raises(KfrecError, match=r"pair.json: weights is .*, not a number for each of first, second, popul"):
        settings_of(tmp_path)


def test_no_pair_is_registered_before_both_stages_have_a_champion(shop: Path, store: str) -> None:
    said = pair_up(shop, "early", pair_with="never registered")
    assert said == "no early: never registered has no champion yet"


def test_two_models_of_one_stage_are_no_pair(shop: Path, store: str) -> None:
    add_version(shop, "other ranker", "ranker")
    with pytest.raises(KfrecError, match="by vectors or scores of all items, and neither of these do"):
        pair_up(shop, "alike", pair_with="other ranker")


def test_a_pair_that_is_named_like_a_stage_is_refused_before_the_registration(shop: Path, tmp_path: Path) -> None:
    parameters = STEPS["register"].of(registered_model="ranker", pair_with="retriever", registered_pair="ranker")
    folders = {name: tmp_path / name for name in ("tfrecord", "model", "evaluation", "registration")}
    with pytest.raises(KfrecError, match="parameter registered_pair='ranker' is registered_model, too"):
        register(parameters, **folders)
