"""Argo's retry strategy, as far as the retries of a step need it.

``backoff.maxDuration`` counts from the first attempt's start: after it no attempt begins, and a running one is ended.
https://argo-workflows.readthedocs.io/en/latest/retries/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def attempts(policy: dict[str, Any], failing_after: Sequence[float]) -> list[float]:
    """How long each attempt ran, in seconds.

    Args:
        policy: ``retryPolicy`` of a compiled task.
        failing_after: seconds after which each attempt would fail on its own.
    """
    limit, longest = int(policy["maxRetryCount"]), _seconds(policy["backoffMaxDuration"])
    wait, factor = _seconds(policy["backoffDuration"]), float(policy["backoffFactor"])
    now, ran = 0.0, []
    for number, duration in enumerate(failing_after[: limit + 1]):
        if number:
            now += wait * factor ** (number - 1)
            if now >= longest:
                break
            duration = min(duration, longest - now)
        ran.append(duration)
        now += duration
    return ran


def retried(policy: dict[str, Any], step: Callable[[], object]) -> list[Exception]:
    """Runs a step until it succeeds or no retry is left, without the waits in between.

    Argo cannot tell bad input from anything else: KFP's launcher exits with 1 whatever the step's exit status was
    (backend/src/v2/cmd/launcher-v2/main.go), and KFP's compiler sets no condition of retries.

    Args:
        policy: ``retryPolicy`` of a compiled task.
        step: one attempt.

    Returns:
        What each failed attempt raised.
    """
    raised: list[Exception] = []
    for _ in range(int(policy["maxRetryCount"]) + 1):
        try:
            step()
        except Exception as error:
            raised.append(error)
        else:
            break
    return raised


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))
