"""The JSON files that steps write next to their results, such as parameters.json, training.json and metrics.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.errors import KfrecError


def read_notes(path: Path) -> dict[str, Any]:
    """The JSON object in a file next to a step's results; empty if the file does not exist.

    Raises:
        KfrecError: it holds something else.
    """
    try:
        body = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise KfrecError(f"{path}: not JSON ({error}); run the step that wrote it again") from None
    if not isinstance(body, dict):
        raise KfrecError(f"{path}: not a JSON object; run the step that wrote it again")
    return body
