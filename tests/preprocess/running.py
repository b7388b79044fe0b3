"""The preprocess step in this process, on one worker unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.parameters import build
from components.preprocess.step import run
from components.steps.catalog import STEPS


def preprocess(raw: Path, output: Path, **parameters: Any) -> Mapping[str, int]:
    chosen = {"workers": 1} | parameters
    return run(build(STEPS["preprocess"].parameters(chosen), chosen), raw=raw, parquet=output)


def error_of(raw: Path, output: Path, **parameters: Any) -> str:
    """The one line of a run that fails, which leaves neither a new output nor a file of its own."""
    adopt(raw)
    before = set(output.parent.iterdir())
    with pytest.raises(KfrecError) as caught:
        preprocess(raw, output, **parameters)
    message = str(caught.value)
    assert "\n" not in message
    assert set(output.parent.iterdir()) == before, "something was left behind"
    return message
