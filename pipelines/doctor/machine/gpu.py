"""GPUs that TensorFlow sees, queried in a separate process; the CPU package is not queried."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from pipelines.doctor.finding import Finding, note, ok
from pipelines.doctor.machine.place import Machine
from pipelines.doctor.machine.tensorflow import installed

_QUESTION = "import tensorflow; print(len(tensorflow.config.list_physical_devices('GPU')))"
_SECONDS = 30


def check(machine: Machine) -> Iterator[Finding]:
    tensorflow = installed()
    if tensorflow is None:
        yield note("unknown without TensorFlow")
        return
    here = sum(1 for _ in (machine.proc / "driver/nvidia/gpus").glob("*"))
    if not tensorflow.can_use_gpus:
        unused = f", although NVIDIA's driver has {here}" if here else ""
        yield note(f"none: {tensorflow.package} uses the CPU only{unused}")
        return
    seen = _seen()
    if seen:
        yield ok(f"{seen} seen by {tensorflow.package} {tensorflow.version}")
    elif here:
        yield note(
            f"none seen by TensorFlow, although NVIDIA's driver has {here}", "check CUDA_VISIBLE_DEVICES and CUDA"
        )
    else:
        yield note("none: training uses the CPU")


def _seen() -> int:
    """The number of GPUs that TensorFlow lists; 0 on failure or timeout."""
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _QUESTION], env=quiet, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        return int(done.stdout.split()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0
