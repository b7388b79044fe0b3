"""Counts of all worker processes of a server, in the text format of Prometheus.

Each process writes a row of its own in a shared file, and any of them answers for all.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from components.served_rows.log import DROPPED, FAILURES, LOGGED

TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper bounds of the histogram's buckets, in seconds.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STATUSES = (200, 400, 404, 415, 500)
_TOTALS = {
    "kfrec_rows_total": "Rows of answered requests.",
    "kfrec_unknown_ids_total": "Ids of answered requests that the model has never seen.",
    "kfrec_batches_total": "Batches scored; requests that wait at the same time share one.",
    LOGGED: "Served rows in files of the log.",
    DROPPED: "Served rows that the log has lost: its memory was full, or the server ended while the store was away.",
    FAILURES: "Failed tries to write a file of the log.",
    "kfrec_model_switches_total": "Versions that a process has switched to since it began.",
    "kfrec_model_refusals_total": "Versions that a process could not load, so that it kept the one before.",
}
_COLUMNS = [
    *((f"status {status}") for status in _STATUSES), *_TOTALS, *((f"at most {bound}") for bound in _BOUNDS), "seconds",
]  # fmt: skip
_PLACES = {name: place for place, name in enumerate(_COLUMNS)}


class Counters:
    """The counts of a server.

    Args:
        path: the file that its processes share.
        worker: the number of this process, from 0.
    """

    def __init__(self, path: Path, worker: int, workers: int) -> None:
        self._all = np.memmap(path, np.float64, "r+", shape=(workers, len(_COLUMNS)))
        self._own = self._all[worker]

    @staticmethod
    def make(path: Path, workers: int) -> None:
        """Writes the file, all counts 0."""
        np.zeros((workers, len(_COLUMNS))).tofile(path)

    def add(self, name: str, count: float = 1) -> None:
        self._own[_PLACES[name]] += count

    def request(self, status: int, seconds: float) -> None:
        """Counts a request that was answered with a status after these seconds."""
        self.add(f"status {status}")
        self.add("seconds", seconds)
        for bound in _BOUNDS:
            if seconds <= bound:
                self.add(f"at most {bound}")
                break

    def text(self, model: str, version: str) -> str:
        """All counts as Prometheus reads them."""
        return "\n".join(self._lines(model, version)) + "\n"

    def _lines(self, model: str, version: str) -> Iterator[str]:
        sums = dict(zip(_COLUMNS, self._all.sum(0).tolist(), strict=True))
        yield from _head("kfrec_model_info", "gauge", "The served model.")
        yield f'kfrec_model_info{{model="{_escaped(model)}",version="{_escaped(version)}"}} 1'
        yield from _head("kfrec_requests_total", "counter", "Requests for scores or lists, by status.")
        counts = {status: sums[f"status {status}"] for status in _STATUSES}
        for status, count in counts.items():
            yield f'kfrec_requests_total{{status="{status}"}} {count:.0f}'
        for name, about in _TOTALS.items():
            yield from _head(name, "counter", about)
            yield f"{name} {sums[name]:.0f}"
        yield from _head("kfrec_request_seconds", "histogram", "From a request's last byte to its answer.")
        below = 0.0
        for bound in _BOUNDS:
            below += sums[f"at most {bound}"]
            yield f'kfrec_request_seconds_bucket{{le="{bound}"}} {below:.0f}'
        total = sum(counts.values())
        yield f'kfrec_request_seconds_bucket{{le="+Inf"}} {total:.0f}'
        yield f"kfrec_request_seconds_sum {sums['seconds']:.6f}"
        yield f"kfrec_request_seconds_count {total:.0f}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
