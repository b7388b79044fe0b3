"""The checks of a machine, in display order."""

from __future__ import annotations

from pipelines.doctor.finding import Check
from pipelines.doctor.machine import compiler, gpu, horovod, interpreter, mpi, packages, port, processor, space
from pipelines.doctor.machine.place import Machine

CHECKS: tuple[Check[Machine], ...] = (
    Check("python", interpreter.look),
    Check("processor", processor.look),
    Check("packages", packages.look),
    Check("compiler", compiler.look),
    Check("horovod", horovod.look),
    Check("mpi", mpi.look),
    Check("gpu", gpu.look),
    Check("disk", space.disk),
    Check("memory", space.memory),
    Check("port", port.look),
)
