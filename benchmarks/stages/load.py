"""Requests over loopback: ``kfrec serve`` against MLflow's own server, with clients that wait for each answer."""

from __future__ import annotations

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.exported import export_model
from benchmarks.measuring import Figure, Plan, Report
from benchmarks.samples import specification
from benchmarks.stages.serve import save_pyfunc
from benchmarks.training import worker_step
from pipelines.cli.options import free_port

USERS, ITEMS, CATEGORIES, LENGTH = 20_000, 5_000, 300, 100
CANDIDATES, CLIENTS, REQUESTS = 100, 8, 25
HISTORY = [f"B{number}" for number in range(3, 3 + LENGTH)]
_LISTS = {"dataframe_records": [{"history": HISTORY}], "params": {"top": 20}}
_ROWS = {
    "dataframe_records": [
        {"user": "A7", "history": HISTORY, "item": f"B{number}"} for number in range(500, 500 + CANDIDATES)
    ]
}
REQUESTED = {
    "sasrec": (f"top 20 of {ITEMS:,} items, SASRec", _LISTS),
    "sasrec_knn": (f"top 20 of {ITEMS:,} items, SASRec and item-kNN", _LISTS),
    "sim": (f"{CANDIDATES} candidates, SIM", _ROWS),
}
OURS, MLFLOW = "kfrec", "mlflow"


class _Load(NamedTuple):
    """What clients saw: quantiles of the seconds to an answer, and requests a second."""

    median: float
    late: float
    rate: float


def measure(folder: Path, plan: Plan, report: Report) -> None:
    largest = ITEMS + 2  # ids of items begin with 3
    spec = specification(USERS, largest, CATEGORIES, LENGTH)
    sizes = {"uid": USERS, "item": largest, "cat": CATEGORIES}
    for name, (what, body) in REQUESTED.items():
        kept = export_model(folder / name, name, worker_step(name, spec).model, spec, sizes)
        _measure(what, json.dumps(body), {OURS: kept, MLFLOW: save_pyfunc(kept)}, plan, report)


def _measure(what: str, body: str, models: dict[str, Path], plan: Plan, report: Report) -> None:
    with ExitStack() as running:
        ports, started = {}, {}
        for name, kept in models.items():
            ports[name], started[name] = running.enter_context(_served(name, kept))
            _load(ports[name], body, 1, 5)
        alone, together = ([{name: _load(port, body, clients, REQUESTS) for name, port in ports.items()}
                            for _ in range(plan.runs)] for clients in (1, CLIENTS))  # fmt: skip
    model = what.rpartition(", ")[2]
    start = {name: [seconds] for name, seconds in started.items()}
    report.add(_figure(f"start with {model}", "s", start, 8.0))
    latency = {name: [1000 * run[name].median for run in alone] for name in models}
    report.add(_figure(f"{what}: median, 1 client", "ms", latency, 5.0 if body == json.dumps(_LISTS) else None))
    for share, at in (("median", 0), ("95 %", 1)):
        latency = {name: [1000 * run[name][at] for run in together] for name in models}
        report.add(_figure(f"{what}: {share}, {CLIENTS} clients", "ms", latency))
    rates = {name: [run[name].rate for run in together] for name in models}
    report.add(Figure("load", f"{what}: {CLIENTS} clients", "requests/s", rates[OURS], rates[MLFLOW]))


def _figure(name: str, unit: str, values: dict[str, list[float]], target: float | None = None) -> Figure:
    return Figure(
        "load", name, unit, values[OURS], values[MLFLOW], target=target, lower_is_better=True,
        note="the reference is MLflow's server",
    )  # fmt: skip


@contextmanager
def _served(name: str, model: Path) -> Iterator[tuple[int, float]]:
    """A server's port, and the seconds until it answered."""
    port, here = free_port(), Path(sys.executable).parent
    command = {
        OURS: ["kfrec", "serve", str(model), f"--port={port}"],
        MLFLOW: ["mlflow", "models", "serve", "--model-uri", str(model), "--env-manager=local", f"--port={port}"],
    }[name]
    # MLflow looks for uvicorn on the path.
    path = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    begun = time.perf_counter()
    process = subprocess.Popen([str(here / command[0]), *command[1:]], env=os.environ | path, start_new_session=True,
                               stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        while not _answers(port):
            assert process.poll() is None, f"{command} ended"
            time.sleep(0.02)
        yield port, time.perf_counter() - begun
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/ping")
        return connection.getresponse().status == 200
    return False


def _load(port: int, body: str, clients: int, requests: int) -> _Load:
    """Sends requests from clients at a time, each over one connection."""

    def send(client: int) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        taken = []
        for _ in range(requests):
            begun = time.perf_counter()
            connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == 200, said
            taken.append(time.perf_counter() - begun)
        connection.close()
        return taken

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        taken = [seconds for each in pool.map(send, range(clients)) for seconds in each]
    whole = time.perf_counter() - begun
    return _Load(statistics.median(taken), statistics.quantiles(taken, n=20)[-1], len(taken) / whole)
