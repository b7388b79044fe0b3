"""The page that leads through the code names files and definitions that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| `(\S+\.py)` \| (.*) \|$", (ROOT / "docs" / "how-a-batch-travels.md").read_text(), re.M)


def test_it_is_read_in_one_sitting() -> None:
    assert 20 <= len(ROWS) <= 25 and len({path for path, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("path", "look"), ROWS, ids=[path for path, _ in ROWS])
def test_the_file_has_what_is_to_be_looked_at(path: str, look: str) -> None:
    text = (ROOT / path).read_text()
    for name in re.findall(r"`([A-Za-z_.]+)`", look):
        if not name.startswith("tf.") and "/" not in name:
            for part in name.split("."):
                assert re.search(rf"\b{part}\b", text), f"{path} has no {name}"
