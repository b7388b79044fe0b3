import re
import time
from typing import Any

from components import registry
from pipelines.screen import table


def test_the_steps_add_up_to_the_total() -> None:
    steps = {name: {"seconds": seconds, "rows": 1} for name, seconds in (("download", 1.249), ("train", 33.351))}
    summary: dict[str, Any] = {
        "steps": steps,
        "metrics": {"test_auc": 0.8, "train_auc": 0.9, "test_logloss": 0.5, "train_samples_per_second": 1.0},
        "registered": {"model": "m", "version": 1, "alias": "champion", "reason": "better"},
        "artifacts": {"report": "report.html"},
        "look": "kfrec ui",
    }
    lines = table(summary, time.monotonic() - 41.7, registry.task("click")).splitlines()
    seconds = {name: float(shown) for name, shown in (re.split(r"\s+", line)[:2] for line in lines[2:6])}
    assert list(seconds) == ["download", "train", "starting", "total"]
    assert round(sum(seconds.values()) - seconds["total"], 1) == seconds["total"]
