"""``kfrec serve``: two processes behind one address, with a model whose scores are known."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from components.errors import KfrecError
from components.serving.launch import processes
from components.serving.worker import ModelFiles
from pipelines.cli.options import free_port
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.model_server import ModelServer, serving
from tests.fakes.small_shop import NAMES, make_data
from tests.serving.counts import counts
from tests.waiting import LONGEST

LOGITS = {name: place / 10 for place, name in enumerate(NAMES)}
WORKERS = 2
# The ids of items are text, and these are whole numbers.
ROW = {"user": "U1", "history": ["B001"], "item": "B007"}
PERSON = {"user": "U1", "history": ["B001"]}
V2 = "/v2/models/known"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", dataset="amazon_reviews", rows=20)
    add_counts(data, dict.fromkeys(NAMES, 7))
    return make_known_model(folder / "known", data, LOGITS)


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with serving(str(model), tmp_path_factory.mktemp("server") / "log", f"--workers={WORKERS}") as started:
        yield started


def probability(item: str) -> Any:
    return pytest.approx(1 / (1 + math.exp(-LOGITS[item])), abs=0.01)


@pytest.mark.parametrize(
    "body",
    [
        {"dataframe_records": [ROW, ROW | {"item": "B059"}]},
        {"dataframe_split": {"columns": ["item", "user", "history"],
                             "data": [["B007", "U1", ["B001"]], ["B059", "U1", ["B001"]]]}},
        {"inputs": {"user": ["U1", "U1"], "history": [["B001"], ["B001"]], "item": ["B007", "B059"]}},
        {"instances": [ROW, ROW | {"item": "B059"}]},
    ],
)  # fmt: skip
def test_rows_get_scores_in_every_form_of_mlflows_protocol(body: Any, server: ModelServer) -> None:
    rows = server.post("/invocations", body).json()["predictions"]
    assert [row["probability"] for row in rows] == [probability("B007"), probability("B059")]
    assert [sorted(row) for row in rows] == [["logit", "probability", "unknown_ids"]] * 2


def test_rows_may_be_csv(server: ModelServer) -> None:
    body, kind = "user,history,item\nU1,B001|B002,B059\nU1,,B007\n", {"Content-Type": "text/csv"}
    answer = requests.post(f"{server.uri}/invocations", data=body, headers=kind, timeout=LONGEST)
    found = answer.json()["predictions"]
    assert [row["probability"] for row in found] == [probability("B059"), probability("B007")]
    assert [row["unknown_ids"] for row in found] == [0, 0]


def test_concurrent_requests_get_their_own_answers(server: ModelServer) -> None:
    def score(item: str) -> float:
        found = server.post("/invocations", {"dataframe_records": [ROW | {"item": item}]}).json()
        return float(found["predictions"][0]["logit"])

    def best(count: int) -> list[str]:
        asked = {"dataframe_records": [PERSON], "params": {"top": count, "exclude": list(NAMES[60 - count :])}}
        return [row["item"] for row in server.post("/invocations", asked).json()["predictions"]]

    with ThreadPoolExecutor(16) as pool:
        scores, lists = pool.map(score, NAMES), pool.map(best, range(1, 20))
        assert list(scores) == [pytest.approx(LOGITS[name], abs=0.1) for name in NAMES]
        assert list(lists) == [list(NAMES[59 - count : 59 - 2 * count : -1]) for count in range(1, 20)]


def test_a_list_names_its_user_and_holds_what_the_request_allows(server: ModelServer) -> None:
    asked = {"top": 3, "candidates": [*NAMES[:9], "new"], "exclude": [NAMES[8]]}
    found = server.post("/invocations", {"dataframe_records": [PERSON], "params": asked}).json()["predictions"]
    assert [(row["user"], row["rank"], row["item"]) for row in found] == [
        ("U1", 1, "B007"), ("U1", 2, "B006"), ("U1", 3, "B005"),
    ]  # fmt: skip


@pytest.mark.parametrize("params", [{}, {"top": 2}])
def test_integers_are_ids_as_in_files(params: Any, server: ModelServer) -> None:
    row = {"user": 1, "history": [7, 8]} | ({} if params else {"item": "B007"})
    answer = server.post("/invocations", {"dataframe_records": [row], "params": params})
    assert answer.status_code == 200 and len(answer.json()["predictions"]) == (2 if params else 1)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"dataframe_records": [PERSON], "params": {"tpo": 3, "n": 1}},
         "unknown parameters: n, tpo; there are top, keep_seen, candidates, exclude, per_category"),
        ({"dataframe_records": [PERSON], "params": {"top": "3"}}, "parameter top='3' is not of the type int"),
        ({"dataframe_records": [PERSON], "params": {"top": 3, "candidates": ["B001", None]}},
         "parameter candidates is a list of items; give their ids as text"),
        ({"dataframe_records": [PERSON], "top": 3}, "unknown fields: top; beside dataframe_records there is params"),
        ({"dataframe_records": [ROW | {"history": ["B001", None]}]},
         "column history has a null in place of an item; give its id, or leave it out"),
        ({"dataframe_records": [ROW, ROW | {"item": None}]},
         "column item has a null in place of an item; give its id, or leave it out"),
        ({"dataframe_records": [{"user": "U1", "item": "B007"}]},
         "has no column history (ids of the items before, oldest first, as in the raw data); the model reads user, "
         "history, item, and it has user, item"),
        ({"dataframe_records": [ROW | {"history": [0.5]}]},
         "column history is of the type double; give a list of ids as text"),
        ({"dataframe_records": [PERSON | {"history": [0.5]}], "params": {"top": 3}},
         "column history is of the type double; give ids as text"),
        ({"rows": [ROW]},
         "the body has no rows; give one of dataframe_records, dataframe_split, inputs, instances"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_line(body: Any, line: str, server: ModelServer) -> None:
    answer = server.post("/invocations", body)
    assert (answer.status_code, answer.json()) == (400, {"error_code": "BAD_REQUEST", "message": line})


@pytest.mark.parametrize(
    ("body", "kind", "status", "line"),
    [
        (b"{", "application/json", 400, "the body is not JSON ("),
        (b"[]", "", 400, "the body is JSON, but not an object"),
        (b"{}", "text/plain", 415, "Content-Type text/plain is none of application/json, text/csv and "),
        (b"PAR1", "application/vnd.apache.parquet", 400, "the body is no application/vnd.apache.parquet ("),
    ],
)
def test_bodies_of_other_types_are_refused(body: bytes, kind: str, status: int, line: str, server: ModelServer) -> None:
    answer = requests.post(f"{server.uri}/invocations", data=body, headers={"Content-Type": kind}, timeout=LONGEST)
    assert answer.status_code == status and answer.json()["message"].startswith(line)


def test_the_inference_protocol_describes_the_model(server: ModelServer) -> None:
    assert server.get("/v2/health/live").json() == {"live": True}
    assert server.get("/v2/health/ready").json() == {"ready": True}
    assert server.get(f"{V2}/ready").json() == {"name": "known", "ready": True}
    about = server.get(V2).json()
    assert about["inputs"] == [
        {"name": "user", "datatype": "BYTES", "shape": [-1]},
        {"name": "history", "datatype": "BYTES", "shape": [-1, -1]},
        {"name": "item", "datatype": "BYTES", "shape": [-1]},
    ]
    assert about["outputs"][-1] == {"name": "unknown_ids", "datatype": "INT32", "shape": [-1]}
    assert server.get("/v2/models/other").status_code == 404


def test_the_inference_protocol_scores_and_ranks(server: ModelServer) -> None:
    users = {"name": "user", "shape": [2], "datatype": "BYTES", "data": ["U1", "U2"]}
    histories = {"name": "history", "shape": [2, 2], "datatype": "BYTES", "data": ["B001", "B002", "B003", ""]}
    items = {"name": "item", "shape": [2], "datatype": "BYTES", "data": ["B007", "B059"]}
    asked = {"id": "a", "inputs": [users, histories, items], "outputs": [{"name": "logit"}, {"name": "unknown_ids"}]}
    found = server.post(f"{V2}/infer", asked).json()
    (logits, unknown) = found.pop("outputs")
    assert found == {"model_name": "known", "model_version": "", "id": "a"}
    assert logits == {"name": "logit", "datatype": "FP32", "shape": [2], "data": pytest.approx([0.7, 5.9], abs=0.1)}
    assert unknown["data"] == [0, 0]
    lists = server.post(f"{V2}/infer", {"inputs": [users, histories], "parameters": {"top": 2}}).json()["outputs"]
    found = {each["name"]: each["data"] for each in lists}
    assert found["user"] == ["U1", "U1", "U2", "U2"] and found["item"] == ["B059", "B058"] * 2
    refused = server.post(f"{V2}/infer", {"inputs": [users, histories], "parameters": {"tpo": 2}})
    assert (refused.status_code, refused.json()) == (
        400, {"error": "unknown parameters: tpo; there are top, keep_seen, candidates, exclude, per_category"},
    )  # fmt: skip


def test_any_process_tells_the_counts_of_all(server: ModelServer) -> None:
    before = counts(server)
    for number in range(6):
        server.post("/invocations", {"dataframe_records": [ROW, ROW | {"item": f"new {number}"}]})
    server.post("/invocations", {"dataframe_records": [PERSON], "params": {"tpo": 3}})
    after = counts(server)
    found = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert found.pop('kfrec_requests_total{status="200"}') == 6
    assert found.pop('kfrec_requests_total{status="400"}') == 1
    assert found.pop("kfrec_rows_total") == 12 and found.pop("kfrec_unknown_ids_total") == 6
    assert found.pop("kfrec_request_seconds_count") == found.pop('kfrec_request_seconds_bucket{le="+Inf"}') == 7
    assert after['kfrec_model_info{model="known",version=""}'] == 1


def test_probes_and_the_version_of_mlflow_are_answered(server: ModelServer) -> None:
    import mlflow

    assert [server.get(path).status_code for path in ("/ping", "/health")] == [200, 200]
    assert server.get("/version").text == mlflow.__version__


@pytest.mark.slow
def test_a_stop_answers_the_requests_that_are_in_the_house(model: Path, tmp_path: Path) -> None:
    rows = [ROW] * 3000
    with serving(str(model), tmp_path / "log") as server, ThreadPoolExecutor(8) as pool:
        before = counts(server)
        asked = [pool.submit(server.post, "/invocations", {"dataframe_records": rows}) for _ in range(8)]
        while counts(server) == before:
            pass
        server.process.send_signal(signal.SIGTERM)
        answers = [each.result() for each in asked]
        assert [answer.status_code for answer in answers] == [200] * 8
        assert server.process.wait(LONGEST) == 128 + signal.SIGTERM
    assert (tmp_path / "log").read_text().splitlines()[-1] == "stopped by SIGTERM"


@pytest.mark.slow
def test_a_process_imports_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("yaml", "numpy", "uvicorn", "tensorflow"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with (
        processes(1, "127.0.0.1", free_port(), tmp_path) as server,
        pytest.raises(KfrecError, match=r"feature_spec\.yaml: missing"),
    ):
        server.serve(ModelFiles(str(tmp_path / "none"), "none", "", ""))
    assert not (tmp_path / "ran").exists()
