"""The launcher's log, line by line, across dropped connections and restarted launchers."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime

from components.cluster.api import Cluster, Expired, Refused
from components.errors import KfrecError
from components.train.jobs.kind import JobKind
from components.train.launching.relay import Relay

# Attempts to read the log of a finished job.
_LAST_TRIES = 5


class LogFollower:
    """Relays the log lines of a job's launchers exactly once, from a background thread.

    Args:
        relay: receives the lines; its error is cleared when another launcher starts.
        pause: polling interval for a launcher, in seconds.
    """

    def __init__(self, cluster: Cluster, kind: JobKind, job: str, relay: Relay, pause: float) -> None:
        self._cluster, self._kind, self._job, self._relay, self._pause = cluster, kind, job, relay, pause
        self._ended = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="launcher log", daemon=True)

    def __enter__(self) -> LogFollower:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """Reads the rest of the log, or stops at once if an error ends the step."""
        if kind is not None:
            self._left.set()  # lines of an abandoned job must not mix with the next one's
        self._ended.set()
        self._thread.join(30.0 if kind is None else 0.0)

    def _follow(self) -> None:
        done: set[str] = set()
        while True:
            last_round = self._ended.is_set()
            for name in self._started_launchers():
                if name not in done:
                    self._read(name)
                    done.add(name)
            if last_round:
                return
            self._ended.wait(self._pause)

    def _started_launchers(self) -> list[str]:
        try:
            pods = self._cluster.pods(self._job)
        except (Refused, KfrecError):
            return []  # the job watcher reports API errors
        return [
            pod["metadata"]["name"]
            for pod in self._kind.launchers(pods)
            if pod.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed")
        ]

    def _read(self, pod: str) -> None:
        """Reads one launcher's log to its end."""
        self._relay.reset()
        last, since, repeated, tries = "", None, 0, _LAST_TRIES
        while True:
            skip = repeated
            try:
                for text in self._cluster.log(pod, follow=True, since_seconds=since):
                    stamp, _, line = text.partition(" ")
                    # After a drop the log is requested from a full second earlier: duplicates are skipped.
                    if stamp < last:
                        continue
                    if stamp == last and skip:
                        skip -= 1
                        continue
                    repeated = repeated + 1 if stamp == last else 1
                    last = stamp
                    if self._left.is_set():
                        return
                    self._relay.line(0, "stdout", line)
                return
            except Expired:
                since = _seconds_since(last)
                if self._ended.is_set():
                    # The log of a finished job is available for a limited time.
                    tries -= 1
                    if not tries:
                        return
                    time.sleep(self._pause)
                else:
                    self._ended.wait(self._pause)
            except Refused:
                return


def _seconds_since(stamp: str) -> int | None:
    """Whole seconds since an RFC 3339 timestamp, plus a margin; None for an empty one."""
    if not stamp:
        return None
    seconds = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC).timestamp()
    return max(1, math.ceil(time.time() - seconds) + 2)
