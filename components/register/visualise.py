"""The decision in the KFP UI."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def show(folders: Mapping[str, Path], arguments: Mapping[str, Any]) -> None:
    """Fills the output that the KFP UI renders.

    Args:
        folders: of the step, by name.
        arguments: of the component function, by name.
    """
    page = Path(arguments["decision"].path)
    page.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folders["registration"] / "decision.html", page)
