"""The retry budget of a compiled pipeline's tasks.

Argo counts ``backoffMaxDuration`` from the first attempt's start, including the wait for a node; afterwards it starts
no retry and ends a running one. KFP's SDK caps it at 3600 s, so the compiled pipeline is patched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.errors import KfrecError

# Wait of each attempt for a node and its image, in seconds.
WAITING = 86_400
# Maximum of a protobuf duration, as which KFP parses it.
LONGEST = 315_576_000_000

Json = dict[str, Any]


def lengthen_retries(spec: Json, platform: Json) -> None:
    """Extends the retry budget of every task to all of its attempts, in place.

    Args:
        spec: the pipeline's specification, as the SDK compiled it.
        platform: its platform specification, with the timeouts.
    """
    for _, policy, timeout in _retried(spec, platform):
        retries = int(policy["maxRetryCount"])
        wait, factor = float(policy["backoffDuration"].removesuffix("s")), float(policy["backoffFactor"])
        waits = sum(wait * factor**retry for retry in range(min(retries, 64)))  # more exceed LONGEST anyway
        policy["backoffMaxDuration"] = f"{(retries + 1) * (timeout + WAITING) + int(waits)}s"


def check_retries(spec: Json, platform: Json) -> None:
    """Checks that every task's retry budget covers all of its attempts, within KFP's longest duration.

    Raises:
        KfrecError: names a task that fails the check.
    """
    for step, policy, timeout in _retried(spec, platform):
        attempts, longest = int(policy["maxRetryCount"]) + 1, policy["backoffMaxDuration"]
        if int(longest.removesuffix("s")) > LONGEST:
            raise KfrecError(
                f"{step}: retries={attempts - 1}, with exponential backoff, take longer than KFP's longest duration; "
                "lower retries or retry_wait in the settings"
            )
        if int(longest.removesuffix("s")) <= attempts * timeout:
            raise KfrecError(
                f"{step}: {attempts} attempts of {timeout} s do not fit into backoffMaxDuration={longest}; "
                "Argo would not retry it, compile it again"
            )


def _retried(spec: Json, platform: Json) -> Iterator[tuple[str, Json, int]]:
    """Name, retry policy and timeout (seconds) of each task that runs a container."""
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    for part in (spec["root"], *spec["components"].values()):
        for name, task in part.get("dag", {}).get("tasks", {}).items():
            if executor := spec["components"][task["componentRef"]["name"]].get("executorLabel"):
                yield name, task["retryPolicy"], int(executors[executor]["activeDeadlineSeconds"])
