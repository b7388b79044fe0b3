"""The processor: the wheels need Linux on x86-64, and TensorFlow's crashes with "illegal instruction" without AVX."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress

from pipelines.doctor.finding import Finding, missing, note, ok
from pipelines.doctor.machine.place import Machine


def check(machine: Machine) -> Iterator[Finding]:
    system, kind = platform.system(), platform.machine()
    if (system, kind) != ("Linux", "x86_64"):
        yield missing(f"{system} on {kind}", "Linux on x86-64 is needed, for example in a virtual machine")
        return
    name, features = _cpuinfo(machine)
    found = f"{name}, {len(os.sched_getaffinity(0))} cores"
    if features and "avx" not in features:
        yield missing(f"{found}, without AVX", "TensorFlow needs it: use another machine or another virtual CPU type")
    elif features and "avx2" not in features:
        yield note(f"{found}, without AVX2: training is slower")
    else:
        yield ok(found)


def _cpuinfo(machine: Machine) -> tuple[str, set[str]]:
    """Model name and CPU flags; no flags if the kernel does not report them."""
    text = ""
    with suppress(OSError):
        text = (machine.proc / "cpuinfo").read_text()
    name, flags = (re.search(rf"^{key}\s*: (.*)$", text, re.MULTILINE) for key in ("model name", "flags"))
    return name[1] if name else platform.machine(), set(flags[1].split()) if flags else set()
