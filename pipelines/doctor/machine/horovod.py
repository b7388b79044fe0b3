"""Horovod: the TensorFlow it was built for, and its communication back ends. Nothing is imported."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from pipelines.doctor.finding import Finding, missing, note, ok
from pipelines.doctor.machine.place import Machine
from pipelines.doctor.machine.tensorflow import installed

# Classes compiled only if the back end was found at build time (Horovod's CMakeLists.txt). Querying Horovod itself
# would load TensorFlow.
_CONTROLLERS = {"Gloo": b"horovod6common14GlooController", "MPI": b"horovod6common13MPIController"}
_REBUILD = "rebuild it: rm -r .venv && make setup"


def check(machine: Machine) -> Iterator[Finding]:
    try:
        folder = Path(str(distribution("horovod").locate_file("horovod")))
    except PackageNotFoundError:
        yield missing("not installed", "make setup, or install kfrec with the extra train")
        return
    found = version("horovod")
    libraries = sorted((folder / "tensorflow").glob("mpi_lib*.so"))
    if not libraries:
        yield missing(f"{found}, built without TensorFlow", _REBUILD)
        return
    built_for, here = _built_for(folder), installed()
    if here and built_for and here.version != built_for:
        yield missing(f"{found}, built for TensorFlow {built_for} and not for {here.version}", _REBUILD)
        return
    controllers = [name for name, symbol in _CONTROLLERS.items() if _holds(libraries[0], symbol)]
    found += f", with {' and '.join(controllers)}" if controllers else ""
    if not controllers:
        yield missing(f"{found}, built with neither Gloo nor MPI", _REBUILD)
    elif "Gloo" not in controllers:
        yield note(f"{found}, without Gloo", "several workers need --set transport=mpi")
    elif "MPI" not in controllers:
        yield note(f"{found}, without MPI: transport=mpi is not possible, transport=gloo is")
    else:
        yield ok(found)


def _built_for(folder: Path) -> str:
    """The TensorFlow version in Horovod's build metadata; empty if unknown."""
    with suppress(OSError, ValueError):
        return str(json.loads((folder / "metadata.json").read_text()).get("tensorflow", ""))
    return ""


def _holds(library: Path, symbol: bytes) -> bool:
    if not library.stat().st_size:
        return False
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(symbol) >= 0
