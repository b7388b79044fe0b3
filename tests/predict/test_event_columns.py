"""Columns of events in raw rows, in files of users, in raw events, in records and in requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from components.artifacts import open_artifact
from components.download.step import run as download
from components.errors import KfrecError
from components.inference.events import events_in, never_again
from components.inference.files import users_in
from components.inference.history import histories_of
from components.preprocess.step import run as preprocess
from components.scoring import RawModel, load_raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.recommend import recommend
from components.scoring.served import Served
from components.steps.catalog import STEPS, TfrecordParameters
from components.tfrecord.step import run as tfrecord
from tests.conftest import MakeOnce
from tests.fakes.reading_model import make_reading_model

INPUTS = ("uid", "item_trgt", "item_pos", "event_event_sequence", "event_device_sequence", "event_price_sequence")
KNOWN = "event_device"
LENGTH = 6
COLUMNS = {"event_categories": "event,device", "event_numbers": "price", "known_columns": "device"}


@pytest.fixture(scope="session")
def shop(made_once: MakeOnce) -> Path:
    """A synthetic shop whose events tell their kind, device and price, and a model that reads them."""

    def make(folder: Path) -> None:
        small = {"synthetic_users": 60, "synthetic_items": 50, "synthetic_categories": 4, "synthetic_shop_days": 8}
        download(STEPS["download"].of(dataset="events", **small), raw=folder / "raw")
        given = {"shortest_sequence_for_user": 2, "max_sequence_length": LENGTH, "negative_sequence_length": 2}
        parameters = STEPS["preprocess"].of(dataset="events", workers=1, **given, **COLUMNS)
        preprocess(parameters, raw=folder / "raw", parquet=folder / "parquet")
        tfrecord(TfrecordParameters(workers=1), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
        make_reading_model(folder / "model", folder / "tfrecord", (*INPUTS, KNOWN))

    return made_once("shop_of_columns", make)


@pytest.fixture
def model(shop: Path) -> RawModel:
    return load_raw_model(shop / "model")


def events_of_users(shop: Path) -> dict[str, pd.DataFrame]:
    """The raw events of each user, oldest first; ties in time are left out."""
    events = pd.read_csv(next((shop / "raw").glob("events*")), dtype=str)
    events["timestamp"] = events["timestamp"].astype(np.int64)
    found = {user: each.sort_values("timestamp", kind="stable") for user, each in events.groupby("user")}
    return {user: each for user, each in found.items() if each["timestamp"].is_unique}


def row_of(user: str, events: pd.DataFrame, item: str) -> dict[str, Any]:
    """A raw row whose history are these events, and whose device is that of the newest one."""
    beside = {f"history_{name}": events[name].tolist() for name in ("event", "device", "price")}
    return {
        "user": user,
        "history": events["item"].tolist(),
        "item": item,
        "device": events["device"].iloc[-1],
        **beside,
    }


def arrays(rows: list[dict[str, Any]]) -> dict[str, pa.Array]:
    return {name: pa.array([row[name] for row in rows]) for name in rows[0]}


def test_the_columns_say_what_they_hold(model: RawModel) -> None:
    beside = ["history_event", "history_device", "history_price"]
    assert [column.name for column in model.columns] == ["user", "history", "item", *beside, "device"]
    assert model.score({name: pa.array(values) for name, values in model.rows.example().items()}).rows == 2


def test_lists_from_raw_events_read_the_columns_of_each_event(shop: Path, model: RawModel) -> None:
    raw, catalogue = open_artifact(shop / "raw"), Catalogue(model)
    users = list(events_of_users(shop))[:8]
    ((names, histories),) = events_in(raw, model, users)
    lists = recommend(catalogue, names, histories, 50, keep_seen=True).table.to_pandas()
    for user in users:
        mine = lists[lists["user"] == user]
        rows = [row_of(user, events_of_users(shop)[user], item) for item in catalogue.names.to_pylist()]
        scored = model.score(arrays(rows)).outputs["logit"].astype(np.float64)
        counts = catalogue.counts
        assert counts is not None
        expected = dict(zip(catalogue.names.to_pylist(), np.exp(scored) * np.maximum(counts, 0.5), strict=True))
        kept = [item for item, flag in zip(mine["item"], mine["flag"], strict=True) if not flag]
        assert kept == sorted(kept, key=lambda item: -expected[item])


def test_a_file_of_users_gives_the_columns_beside_the_history(shop: Path, model: RawModel, tmp_path: Path) -> None:
    user, events = max(events_of_users(shop).items(), key=lambda each: len(each[1]))
    row = row_of(user, events, "")
    lists = {name: "|".join(value) for name, value in row.items() if name.startswith("history")}
    pd.DataFrame([{"user": user, **lists}, {"user": user}, {"user": "other", "history": "[]"}]).to_csv(
        tmp_path / "users.csv", index=False
    )
    ((_, from_events),) = events_in(open_artifact(shop / "raw"), model, [user])

    def known(users: Any, remedy: str) -> Any:
        yield pa.array(users), from_events

    ((names, histories, context),) = users_in(tmp_path / "users.csv", model, known)
    assert not context
    given, blank, nothing = histories.to_pylist()
    assert names.to_pylist() == [user, user, "other"] and nothing == []
    assert [(each["item"], each["history_event"], each["history_device"]) for each in given] == [
        (each["item"], each["history_event"], each["history_device"]) for each in blank
    ]
    assert [float(each["history_price"]) for each in given] == [float(each["history_price"]) for each in blank]


def test_a_file_tells_what_is_known_of_new_users(shop: Path, model: RawModel, tmp_path: Path) -> None:
    rows = [{"user": f"new {device}", "history": "[]", "device": device} for device in ("phone", "computer", "")]
    pd.DataFrame(rows).to_csv(tmp_path / "users.csv", index=False)

    def nobody(users: Any, remedy: str) -> Any:
        yield pa.array(users), pa.nulls(len(users))

    ((names, histories, context),) = users_in(tmp_path / "users.csv", model, nobody)
    lists = recommend(Catalogue(model), names, histories, 50, context=context).table.to_pandas()
    phone, computer, unknown = (lists[lists["user"] == name]["likelihood"].to_numpy() for name in names.to_pylist())
    assert (phone != computer).any() and (phone != unknown).any() and (computer != unknown).any()


def test_a_wrong_value_of_a_new_user_is_told_with_its_file(shop: Path, model: RawModel, tmp_path: Path) -> None:
    (tmp_path / "users.jsonl").write_text('{"user": "new", "history": [], "device": ["phone"]}\n')
    with pytest.raises(KfrecError, match=r"users.jsonl: column device is of the type list"):
        list(users_in(tmp_path / "users.jsonl", model, lambda users, remedy: iter(())))


def test_records_tell_the_columns_of_the_newest_events(shop: Path, model: RawModel) -> None:
    catalogue, found = Catalogue(model), 0
    for names, histories in histories_of(None, str(shop / "tfrecord")):
        for user, history in zip(names.to_pylist(), histories.to_pylist(), strict=True):
            events = events_of_users(shop).get(user)
            if events is None:
                continue
            items = [each["item"] for each in history]
            ends = [
                end
                for end in range(1, len(events) + 1)
                if events["item"].iloc[max(end - len(history), 0) : end].tolist() == items
            ]
            for end in ends[:1]:
                devices = events["device"].iloc[end - len(history) : end].tolist()
                assert [each["history_device"] for each in history] == devices
                found += 1
        recommend(catalogue, names, histories, 3)
    assert found > 5


def test_requests_have_the_columns_for_scores_and_lists(shop: Path, model: RawModel) -> None:
    served, (user, events) = Served(shop / "model"), next(iter(events_of_users(shop).items()))
    known = {"device": "phone"}
    rows = pd.DataFrame([{**row_of(user, events, item), **known} for item in Catalogue(model).names.to_pylist()])
    scores = served.predict(rows).set_index(rows["item"])["logit"]
    listed = served.predict(rows.drop(columns="item").head(1), top=60, keep_seen=True)
    other = served.predict(rows.drop(columns="item").head(1).assign(device="computer"), top=60, keep_seen=True)
    assert (listed["likelihood"].to_numpy() != other["likelihood"].to_numpy()).any()
    lifts = listed.set_index("item")["likelihood"] / np.exp(scores)
    counts = Catalogue(model).counts
    assert counts is not None
    shares = pd.Series(counts, Catalogue(model).names.to_pylist())
    trained = shares[shares > 0].index
    np.testing.assert_allclose((lifts / shares)[trained] / (lifts / shares)[trained].mean(), 1, rtol=1e-3)


@pytest.mark.parametrize("blank", [None, []])
def test_values_may_be_missing(model: RawModel, blank: Any) -> None:
    item = Catalogue(model).names[0].as_py()
    row = {"user": "u", "history": [item, item], "item": item, "device": None}
    names = ("history_event", "history_device", "history_price")
    missing = model.rows.encode(arrays([{**row, **{name: [None, "NA"] for name in names}}]))
    none = model.rows.encode({**arrays([row]), **{name: pa.array([blank], pa.list_(pa.string())) for name in names}})
    for name in INPUTS:
        np.testing.assert_array_equal(none.features[name], missing.features[name])
    assert missing.features["event_device_sequence"].tolist() == [[0] * (LENGTH - 2) + [1, 1]]
    assert none.features["event_device"].tolist() == [1]


def test_an_unknown_category_is_counted_and_a_number_has_an_interval(model: RawModel) -> None:
    item = Catalogue(model).names[0].as_py()
    beside = {"history_event": ["view"], "history_device": ["watch"], "history_price": [1e9]}
    encoded = model.rows.encode(arrays([{"user": "u", "history": [item], "item": item, "device": "watch", **beside}]))
    assert encoded.features["event_device_sequence"][0, -1] == encoded.features["event_device"][0] == 2
    assert encoded.unknown["history_device"].tolist() == encoded.unknown["device"].tolist() == [1]
    assert (
        encoded.features["event_price_sequence"][0, -1] == model.model.spec.features["event_price_sequence"].cardinality
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"history_device": ["phone"]}, "column history_device has 1 values beside a history of 2 items"),
        ({"history_price": ["cheap", "3"]}, "column history_price has 'cheap', which is no number"),
    ],
)
def test_a_column_that_does_not_fit_is_one_line(model: RawModel, shop: Path, changed: Any, said: str) -> None:
    item = Catalogue(model).names[0].as_py()
    beside = {"history_event": ["view", "cart"], "history_device": ["phone", None], "history_price": ["2", "3"]}
    row = {"user": "u", "history": [item, item], "item": item, "device": "phone", **beside, **changed}
    with pytest.raises(KfrecError, match=said):
        model.score(arrays([row]))
    with pytest.raises(KfrecError, match=said):
        Served(shop / "model").predict(pd.DataFrame([row]).drop(columns="item"), top=2)


def test_what_is_never_listed_again_are_items(shop: Path, model: RawModel) -> None:
    bought = never_again(open_artifact(shop / "raw"), model, "purchase", "--never-again")
    events = pd.read_csv(next((shop / "raw").glob("events*")))
    wanted = events[events["event"] == "purchase"]
    assert set(zip(*bought.to_pydict().values(), strict=True)) == set(zip(wanted["user"], wanted["item"], strict=True))
