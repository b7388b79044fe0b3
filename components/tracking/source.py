"""The git commit of the code."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git_commit(folder: Path | None = None) -> str:
    """The commit checked out in ``folder`` (default: where kfrec is installed), or "" outside a git checkout."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=folder or Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
