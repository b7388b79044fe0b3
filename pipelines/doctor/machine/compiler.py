"""The C++ compiler: Horovod is built from source, once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from pipelines.doctor.finding import Finding, missing, note, ok
from pipelines.doctor.machine.place import Machine

_NAMES = ("c++", "g++")  # as in the Makefile


def check(machine: Machine) -> Iterator[Finding]:
    if found := next(filter(None, map(shutil.which, _NAMES)), None):
        yield ok(found)
        return
    try:
        version("horovod")
    except PackageNotFoundError:
        yield missing("no C++ compiler, and Horovod is not built yet", "install g++ (on Debian: apt-get install g++)")
    else:
        yield note("no C++ compiler; none is needed until Horovod is rebuilt")
