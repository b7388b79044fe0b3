"""Settings that a cluster mounts as files: each file of these folders becomes an environment variable.

kfp-kubernetes can make an environment variable of a secret or a config map only if that surely exists; as a volume it
may be absent (kubeflow/pipelines issue 11401). So everything comes as a volume, and what a cluster does not have is
simply not set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path("/etc/kfrec")
# Kubernetes keeps its own bookkeeping (..data) beside the files.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def mounted_environment(root: Path = ROOT) -> Mapping[str, str]:
    """Variables that the folders below ``root`` hold, one file each, without the line end after the value."""
    files = sorted(file for file in root.glob("*/*") if _VARIABLE.fullmatch(file.name) and file.is_file())
    return {file.name: file.read_text().rstrip("\r\n") for file in files}


def use_mounted_environment(root: Path = ROOT) -> None:
    """Sets the mounted variables in this process's environment; what is set already stays."""
    for name, value in mounted_environment(root).items():
        os.environ.setdefault(name, value)
