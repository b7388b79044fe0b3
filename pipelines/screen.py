"""The terminal output of a local run: one progress bar at a time, one line per finished step, a table at the end."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.progress import Shown, duration, parse_event, shown
from components.tasks import TaskDefinition
from components.tracking.champion import standing

# The key of a finished step's warnings, a list of {"about": a few words, "message": one line}.
WARNINGS = "warnings"


class StepOutput(io.TextIOBase):
    """Replaces stdout: displays the steps' events and appends all other output to a log.

    Args:
        changed: called when a step starts or finishes.

    Attributes:
        part: begins the names of the steps that follow, such as "refit "; empty for those of the pipeline itself.
        finished: step name to its "finished" event, with the step's warnings.
        error: the last "error" event's message, empty if there was none; the log has the traceback of an exception.
        running: the current step, empty between steps.
        run_id: the pipeline run's identifier, from the steps' events.
    """

    def __init__(self, log: Path, changed: Callable[[], None] = lambda: None) -> None:
        self.log = log
        self.part = ""
        self.finished: dict[str, dict[str, Any]] = {}
        self.error = ""
        self.run_id = ""
        self._file = log.open("a")
        self._begin = self._file.tell()
        self._warnings: list[dict[str, str]] = []
        self._changed = changed
        self._rest = ""
        self._bar: Shown | None = None
        self.running = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)

    def close(self) -> None:
        self._close_bar()
        self._file.close()
        super().close()

    def step_lines(self) -> list[str]:
        """The lines in the log of the step that runs, or ran last."""
        self._file.flush()
        with self.log.open(errors="replace") as file:
            file.seek(self._begin)
            return file.read().splitlines()

    def _line(self, line: str) -> None:
        event = parse_event(line)
        if event is None:
            self._file.write(line + "\n")
            self._file.flush()
            return
        getattr(self, f"_on_{event['kfrec']}", lambda _: None)(event)

    def _on_started(self, event: Mapping[str, Any]) -> None:
        self.run_id = event["run_id"] or self.run_id
        self.running = self.part + event["step"]
        self._warnings = []
        self._changed()
        print(f"{self.running:<10} …", file=sys.stderr, flush=True)

    def _on_progress(self, event: Mapping[str, Any]) -> None:
        if self._bar is None or self._bar.desc != f"  {event['label']}":
            self._close_bar()
            self._bar = shown(f"  {event['label']}", event["total"], event["unit"], event["done"])
        self._bar.update(event["done"] - self._bar.n)

    def _on_finished(self, event: Mapping[str, Any]) -> None:
        self._close_bar()
        name = self.part + event["step"]
        self.finished[name] = dict(event) | {WARNINGS: self._warnings}
        self.running = ""
        self._begin = self._file.tell()
        self._changed()
        counts = ", ".join(f"{count:,} {name}" for name, count in event["counts"].items())
        print(f"{name:<10} done in {duration(event['seconds'])}  {counts}", file=sys.stderr, flush=True)

    def _on_warning(self, event: Mapping[str, Any]) -> None:
        self._close_bar()
        self._warnings.append({"about": event["about"], "message": event["message"]})
        print(f"{self.part + event['step']:<10} {event['message']}", file=sys.stderr, flush=True)

    def _on_error(self, event: Mapping[str, Any]) -> None:
        self._close_bar()
        self.error = f"{self.part}{event['step']}: {event['message']}"
        if event.get("crashed"):
            self.error += f"; its traceback is in {self.log}"

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def table(summary: Mapping[str, Any], since: float, task: TaskDefinition) -> str:
    """The summary as a table for the terminal.

    Args:
        since: time.monotonic() at the start of the run.
    """
    metrics, registered, refit = summary["metrics"], summary["registered"], summary["refit"]
    rows = [("step", "seconds", "rows")]
    # Sums rounded tenths, so that the displayed values add up to the total.
    tenths = {name: round(10 * step["seconds"]) for name, step in summary["steps"].items()}
    total = round(10 * (time.monotonic() - since))
    rows += [(name, f"{tenths[name] / 10:.1f}", f"{step['rows']:,}") for name, step in summary["steps"].items()]
    rows += [("starting", f"{(total - sum(tenths.values())) / 10:.1f}", ""), ("total", f"{total / 10:.1f}", "")]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    scores = [
        f"{split} {metric.label} {metrics[f'{split}_{metric.name}']:.4f}"
        for metric in task.metrics
        for split in ("test", "train")
        if f"{split}_{metric.name}" in metrics
    ]
    if "test_positives" in metrics:
        scores.append(f"{metrics['test_positives']:,} test positives")
    lines.insert(1, "-" * len(lines[0]))
    lines += [
        "",
        "   ".join((*scores, f"{metrics['train_samples_per_second']:,.0f} samples/s")),
        *(f"note: {remark}" for remark in summary["remarks"]),
        *(warning["message"] for warning in summary["warnings"]),
        f"{summary['registered']['model']} version {registered['version']} is {standing(registered['alias'])}: "
        f"{registered['reason']}",
        *([f"published: version {refit['version']}: {refit['reason']}"] if refit else []),
        *([summary["pair"]] if summary["pair"] else []),
        f"report  {summary['artifacts']['report']}",
        f"look    {summary['look']}",
    ]
    return "\n".join(lines)
