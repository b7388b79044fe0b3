"""An id is one at every entrance: in columns and lists of files and requests, candidates and exclusions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from components.errors import KfrecError
from components.inference.files import candidates_in, exclusions_in, users_in
from components.inference.history import People
from components.inference.recommend import Exclusions
from components.scoring.served import Served
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.small_shop import make_data

# Too long for float64.
FIRST = 1152921504606846977
IDS = tuple(str(FIRST + place) for place in range(20))
BEST = IDS[::-1]


def make(folder: Path, dataset: str) -> Served:
    data = make_data(folder / "tfrecord", dataset=dataset, rows=20, names=IDS)
    add_counts(data, dict.fromkeys(IDS, 7))
    logits = {name: float(place) for place, name in enumerate(IDS)}
    return Served(make_known_model(folder / "known", data, logits, shared=True))


@pytest.fixture(scope="module", params=["amazon_reviews", "events"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return make(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def of_events(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return make(tmp_path_factory.mktemp("spelled"), "events")


def best(served: Served, history: Any, **wanted: Any) -> tuple[list[str], int]:
    """The three best items, and the number of unknown ids, of which the user is one."""
    rows = pd.DataFrame({"user": ["nobody"], "history": history})
    (answer,) = served.answer([served.request(dict(rows), 1, {"top": 3, "keep_seen": False, **wanted})])
    return answer.table["item"].to_pylist(), answer.unknown - 1


@pytest.mark.parametrize(
    "history",
    [
        [[BEST[0], BEST[2]]],
        [[int(BEST[0]), int(BEST[2])]],
        [[int(BEST[0]), BEST[2]]],
        [np.array([int(BEST[0]), int(BEST[2])])],
        [f"{BEST[0]}|{BEST[2]}"],
    ],
)
def test_a_history_is_text_or_integers_in_a_list_or_one_value(served: Served, history: Any) -> None:
    assert best(served, history) == ([BEST[1], *BEST[3:5]], 0)


@pytest.mark.parametrize("nothing", [[[]], ["[]"], [""], [None]])
def test_a_request_without_a_history_has_none(served: Served, nothing: Any) -> None:
    assert best(served, nothing) == ([*BEST[:3]], 0)


def test_candidates_and_exclusions_of_a_request_are_ids(served: Served) -> None:
    for kind in (str, int):
        assert best(served, [[]], exclude=[kind(BEST[0])])[0] == [*BEST[1:4]]
        assert best(served, [[]], candidates=[kind(IDS[1]), kind(IDS[2])])[0] == [IDS[2], IDS[1]]


def test_ids_of_events_have_every_spelling_of_their_tables(of_events: Served) -> None:
    assert best(of_events, [[f" {BEST[0]} ", f"{BEST[2]}.0"]]) == ([BEST[1], *BEST[3:5]], 0)
    assert best(of_events, [f"{BEST[0]}.0| {BEST[2]}"]) == ([BEST[1], *BEST[3:5]], 0)
    assert best(of_events, [[]], exclude=[f" {BEST[0]}"], candidates=[f"{BEST[0]}.0", BEST[1]])[0] == [BEST[1]]


def test_what_is_no_id_is_one_line(served: Served, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"column history has \"\['a', 'b'\]\", a list as programs write it"):
        best(served, ["['a', 'b']"])
    with pytest.raises(KfrecError, match="parameter exclude is a list of items"):
        best(served, [[]], exclude=[True])
    given = tmp_path / "bought.parquet"
    pd.DataFrame({"user": [["a"]], "item": ["b"]}).to_parquet(given)
    with pytest.raises(KfrecError, match=r"bought\.parquet: column user is of the type list"):
        exclusions_in(given, served.model)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl"])
def test_files_of_integers_are_read_as_those_of_text(served: Served, tmp_path: Path, name: str) -> None:
    rows = pd.DataFrame({"user": [7, 8], "item": [int(BEST[0]), int(IDS[0])], "history": [[int(BEST[1])], []]})
    path = tmp_path / name
    if name.endswith(".csv"):
        rows.assign(history=[BEST[1], "[]"]).to_csv(path, index=False)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_dict("records")))
    else:
        rows.to_parquet(path)
    excluded = Exclusions([exclusions_in(path, served.model)]).of(pa.array(["8", "7", "9"]))
    assert excluded.to_pylist() == [[IDS[0]], [BEST[0]], None]
    assert candidates_in(path, served.model, 0)[0].to_pylist() == [BEST[0], IDS[0]]

    def of_data(users: Any, remedy: str) -> People:
        raise AssertionError(users)

    people = [(users.to_pylist(), lists.to_pylist()) for users, lists, _ in users_in(path, served.model, of_data)]
    assert people == [(["7", "8"], [[BEST[1]], []])]
