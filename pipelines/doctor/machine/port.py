"""The port of ``kfrec ui``."""

from __future__ import annotations

from collections.abc import Iterator

from components.errors import KfrecError
from pipelines.doctor.finding import Finding, note, ok
from pipelines.doctor.machine.place import Machine
from pipelines.ports import free_port, require_free


def check(machine: Machine) -> Iterator[Finding]:
    try:
        require_free(machine.port)
    except KfrecError:
        yield note(f"{machine.port} is in use", f"kfrec ui --port {free_port()}")
    else:
        yield ok(f"{machine.port} is free for kfrec ui")
