"""Which TensorFlow is installed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

_CPU_ONLY = "tensorflow-cpu"


@dataclass(frozen=True)
class Installed:
    """A package that provides the module tensorflow.

    Attributes:
        package: its name.
        version: its version.
    """

    package: str
    version: str

    @property
    def can_use_gpus(self) -> bool:
        return self.package != _CPU_ONLY


def installed() -> Installed | None:
    for package in (_CPU_ONLY, "tensorflow"):
        try:
            return Installed(package, version(package))
        except PackageNotFoundError:
            continue
    return None
