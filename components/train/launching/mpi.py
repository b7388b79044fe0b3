"""Locates libmpi: Horovod links against it, but it is in the Python environment, outside the loader's search path."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

LIBRARY = "libmpi.so.40"


def make_mpi_loadable(prefix: str = sys.prefix) -> None:
    """Loads the environment's libmpi before Horovod is imported. Does nothing if there is none.

    Args:
        prefix: root of the Python environment.
    """
    library = Path(prefix) / "lib" / LIBRARY
    if library.is_file():
        os.environ.setdefault("OPAL_PREFIX", prefix)
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def mpi_environment(prefix: str = sys.prefix) -> dict[str, str]:
    """Variables that point mpirun and its processes to the environment's MPI; empty if there is none."""
    libraries = Path(prefix) / "lib"
    if not (libraries / LIBRARY).is_file():
        return {}
    earlier = os.environ.get("LD_LIBRARY_PATH", "")
    paths = [str(libraries)] + [path for path in earlier.split(":") if path and path != str(libraries)]
    # mpirun wants a remote shell to exist even for ranks of this machine alone, which need none.
    shell = {} if shutil.which("ssh") or shutil.which("rsh") else {"OMPI_MCA_plm_rsh_agent": "sh"}
    return {"OPAL_PREFIX": prefix, "LD_LIBRARY_PATH": ":".join(paths), **shell}
