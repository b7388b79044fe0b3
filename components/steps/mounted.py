"""Settings that a cluster mounts as files: each file of these folders becomes an environment variable.

kfp-kubernetes requires that a secret or a config map exists to map it to an environment variable; as a volume it may be
optional (kubeflow/pipelines issue 11401). So all of them are mounted as volumes, and those absent in a cluster are not
set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path("/etc/kfrec")
# Kubernetes keeps internal entries (..data) next to the files.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def mounted_environment(root: Path = ROOT) -> Mapping[str, str]:
    """Variables in the folders below ``root``, one file each, without the trailing newline."""
    files = sorted(file for file in root.glob("*/*") if _VARIABLE.fullmatch(file.name) and file.is_file())
    return {file.name: file.read_text().rstrip("\r\n") for file in files}


def use_mounted_environment(root: Path = ROOT) -> None:
    """Sets the mounted variables in this process's environment; variables that are already set win."""
    for name, value in mounted_environment(root).items():
        os.environ.setdefault(name, value)
