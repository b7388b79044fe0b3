"""The checks of a machine, in display order."""

from __future__ import annotations

from pipelines.doctor.finding import Check
from pipelines.doctor.machine import compiler, gpu, horovod, interpreter, mpi, packages, port, processor, space
from pipelines.doctor.machine.place import Machine

CHECKS: tuple[Check[Machine], ...] = (
    Check("python", interpreter.check),
    Check("processor", processor.check),
    Check("packages", packages.check),
    Check("compiler", compiler.check),
    Check("horovod", horovod.check),
    Check("mpi", mpi.check),
    Check("gpu", gpu.check),
    Check("disk", space.disk),
    Check("memory", space.memory),
    Check("port", port.check),
)
