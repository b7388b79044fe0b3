"""Argo's retry strategy, as far as the retries of a step need it.

``backoff.maxDuration`` counts from the first attempt's start: after it no attempt begins, and a running one is ended.
https://argo-workflows.readthedocs.io/en/latest/retries/
"""

from __future__ import annotations

from collections.abc import Sequence
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


def _seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))
