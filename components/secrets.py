"""Keeps passwords out of what is recorded: manifests, MLflow, run.json, logs."""

from __future__ import annotations

import re
from typing import Any

# What stands for a password that was left out.
HIDDEN = "***"
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^/\s]*@")
# Signatures and keys in the query of a signed URL.
_SIGNED = re.compile(
    r"([?&](?:[\w.-]*(?:sig|signature|token|secret|password|credential|accesskeyid|api_?key))=)[^&\s]+", re.I
)


def without_password(text: str) -> str:
    """A URI, or a text with URIs, with ``***`` for each password, signature and token."""
    return _SIGNED.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))


def without_passwords(values: dict[str, Any]) -> dict[str, Any]:
    """The same for the texts among some parameters."""
    return {name: without_password(value) if isinstance(value, str) else value for name, value in values.items()}
