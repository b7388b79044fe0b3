"""A notice of a run's outcome, as JSON and as text, without passwords."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from components.secrets import HIDDEN, without_password

# Outcomes; stopped is a run that a person or the system has ended.
FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
# Last lines of a log in a notice, and the characters of each.
_LINES, _LONGEST = 20, 500


# Environment variables whose values are in no notice, unless they are so short that they may be words.
_SECRET, _SHORTEST = re.compile(r"KEY|SECRET|PASSWORD|TOKEN|CREDENTIAL|^KFREC_WEBHOOK$|^KFREC_SMTP$"), 6


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Notice:
    """What is told of a run.

    Attributes:
        run: its name, or its id in KFP.
        pipeline: such as "training of sim".
        outcome: one of FINISHED, FAILED and STOPPED.
        message: the error, or what the run came to, in a line.
        step: that failed; empty if none did.
        log: last lines of the failed step's log.
        registered: ``model``, ``version``, ``alias`` and ``reason`` of the gate's decision; empty without one.
        metrics: of the test split, by name.
        warnings: such as columns that drift, a line each.
        link: where to look further; empty if unknown.
        time: when, in UTC.
    """

    run: str
    pipeline: str
    outcome: str
    message: str = ""
    step: str = ""
    log: Sequence[str] = ()
    registered: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    link: str = ""
    time: str = field(default_factory=_now)

    @property
    def title(self) -> str:
        """One line."""
        at = f" in the step {self.step}" if self.step else ""
        return f"kfrec: {self.pipeline}, run {self.run} {self.outcome}{at}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, and the title."""
        shown = dataclasses.replace(self, log=[line[:_LONGEST] for line in self.log][-_LINES:])
        body: dict[str, Any] = _safe({"title": self.title, **dataclasses.asdict(shown)})
        return body

    def to_json(self) -> str:
        """``to_dict`` as JSON."""
        return json.dumps(self.to_dict())

    def to_text(self) -> str:
        """For people."""
        body = self.to_dict()
        registered = body["registered"]
        lines = [body["title"], body["message"]]
        if registered:
            lines.append(f"{registered['model']} version {registered['version']}, {registered['alias']}")
            lines.append(registered["reason"])
        lines += [f"{name} {value:.4f}" for name, value in body["metrics"].items() if isinstance(value, float)]
        lines += [f"warning: {line}" for line in body["warnings"]]
        lines += [body["link"], *(["", "Last lines of its log:", *body["log"]] if body["log"] else [])]
        return "\n".join([lines[0], *(line for line in lines[1:] if line), body["time"]]) + "\n"


def _safe(value: Any) -> Any:
    """The same without passwords in its texts, and without the values of variables that hold one."""
    if isinstance(value, str):
        for name, secret in os.environ.items():
            if _SECRET.search(name) and len(secret) >= _SHORTEST:
                value = value.replace(secret, HIDDEN)
        return without_password(value)
    if isinstance(value, Mapping):
        return {name: _safe(each) for name, each in value.items()}
    return [_safe(each) for each in value] if isinstance(value, list | tuple) else value
