"""Every promise of docs/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ROWS = [
    line for line in (_ROOT / "docs" / "reliability.md").read_text().splitlines() if re.match(r"\| (?!promise|-)", line)
]


def test_there_are_promises() -> None:
    assert len(_ROWS) >= 15


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: str(row)[2:40])
def test_a_promise_names_its_tests(row: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
    assert named, "no test is named"
    for path, function in named:
        body = (_ROOT / path).read_text()
        assert f"def {function or 'test_'}" in body, f"{path} has no {function}"
