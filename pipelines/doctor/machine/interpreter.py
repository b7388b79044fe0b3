"""The Python interpreter: only 3.10 and 3.11 support TensorFlow 2.15, Horovod and NVTabular."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

from pipelines.doctor.finding import Finding, missing, ok
from pipelines.doctor.machine.place import Machine

FIRST, BEYOND = (3, 10), (3, 12)  # requires-python of pyproject.toml


def check(machine: Machine) -> Iterator[Finding]:
    found = f"{platform.python_version()} at {sys.executable}"
    if FIRST <= sys.version_info[:2] < BEYOND:
        yield ok(found)
    else:
        yield missing(found, "Python 3.10 or 3.11 is needed: make setup PYTHON=/path/to/python3.11")
