"""The messages that docs/troubleshooting.md quotes are those that kfrec has, or are known to be of another program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of KFP, Argo, Kubernetes, MLflow, boto, ssh and alembic: how each begins.
OTHERS = (
    "Already exist error: Failed to create a new pipeline version",
    "lookup minio-service.kubeflow: no such host",
    "MissingRegion: could not find region configuration",
    "An error occurred (MissingContentLength)",
    "NotImplemented",
    "OOMKilled",
    "Max duration limit exceeded",
    "Pod was active on the node longer than the specified deadline",
    "pod deleted",
    "Usage of EmptyDir volume",
    "PermissionError: [Errno 13]",
    'mpijobs.kubeflow.org is forbidden: User "system:serviceaccount:',
    'no matches for kind "',
    "bash: line 1: orted: command not found",
    "Connection refused",
    "timed out",
    "Invalid Host header",
    "ModuleNotFoundError: No module named 'psycopg2'",
    "Can't locate revision identified by",
    'secret "kfrec-mlflow-server" not found',
    "CreateContainerConfigError",
    "scratch_volume: ephemeral",  # a setting
)
# A piece of a message that could be of no other one.
_TELLING = 9


def quoted() -> list[str]:
    """The messages in the first columns of the tables."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ") and "you see" not in line]
    return [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]


@cache
def pieces() -> frozenset[str]:
    """The constant parts of all texts in the code, with names and numbers left out."""
    found = set()
    for path in (*ROOT.glob("components/**/*.py"), *ROOT.glob("pipelines/**/*.py")):
        for text in _texts(ast.parse(path.read_text())):
            found |= {piece.strip() for piece in text.split("\0")}
    return frozenset(piece for piece in found if len(piece) >= _TELLING)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)


@pytest.mark.parametrize("quote", quoted())
def test_a_quoted_message_exists(quote: str) -> None:
    if quote.startswith(OTHERS) or len(quote) < _TELLING:
        return
    parts = [part.strip() for part in quote.split("...")]
    ours = [piece for piece in pieces() if piece in quote or any(len(p) >= _TELLING and p in piece for p in parts)]
    assert ours, f"no text of the code has a part of {quote!r}"
