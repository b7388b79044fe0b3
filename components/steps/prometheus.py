"""What a finished step tells Prometheus: through a Pushgateway, or a file for the node exporter's textfile collector.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://github.com/prometheus/pushgateway (``PUT /metrics/job/<job>/<label>/<value>`` replaces a group).
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from components.secrets import without_password

# Address of a Pushgateway, or a folder.
VARIABLE = "KFREC_METRICS"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_TIMEOUT = 5.0


def tell(step: str, seconds: float, rows: Mapping[str, int], metrics: Mapping[str, Any]) -> None:
    """Publishes where the environment says; what cannot be published is a line on standard error, no failure.

    Args:
        rows: counts by what they are of.
        metrics: by name; other values than finite numbers are left out.
    """
    place = os.environ.get(VARIABLE, "").strip()
    if not place:
        return
    text = "".join(f"{line}\n" for line in _lines(step, seconds, rows, metrics))
    try:
        if place.startswith(("http://", "https://")):
            import requests  # half a second, which steps without a gateway need not wait

            url = f"{place.rstrip('/')}/metrics/job/kfrec/step/{step}"
            requests.put(url, data=text.encode(), headers={"Content-Type": _TYPE}, timeout=_TIMEOUT).raise_for_status()
        else:
            target = Path(place) / f"kfrec_{step}.prom"
            partial = target.with_suffix(".partial")  # which the collector does not read
            partial.write_text(text)
            partial.replace(target)
    except (OSError, ValueError) as error:
        said = " ".join(without_password(str(error)).split())
        print(f"metrics of {step}: not sent to {VARIABLE} ({said}); correct it", file=sys.stderr, flush=True)


def _lines(step: str, seconds: float, rows: Mapping[str, int], metrics: Mapping[str, Any]) -> Iterator[str]:
    def family(name: str, about: str, samples: Mapping[str, float]) -> Iterator[str]:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} gauge"
        for label, value in samples.items():
            yield f'{name}{{step="{step}"{label}}} {value!r}'

    yield from family("kfrec_step_finished_seconds", "When the step finished, since 1970.", {"": time.time()})
    yield from family("kfrec_step_duration_seconds", "Seconds that the step took.", {"": seconds})
    counted = {f',rows="{name}"': float(count) for name, count in rows.items()}
    yield from family("kfrec_step_rows", "Rows that the step has read or written.", counted)
    numbers = {
        f',metric="{name}"': float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
    yield from family("kfrec_step_metric", "Metrics of the model, such as test_auc, and samples/s.", numbers)
