"""What the workflow of GitHub may do, and whose code it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.yaml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_only_reads_and_names_its_actions_by_commit(path: Path) -> None:
    """A tag can be moved to other code."""
    text = path.read_text()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)", text)
    assert used and [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
