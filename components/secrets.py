"""Redacts passwords in manifests, MLflow, run.json and logs."""

from __future__ import annotations

import re
from typing import Any

# Replaces a redacted password.
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
    """The same for all text values."""
    return {name: without_password(value) if isinstance(value, str) else value for name, value in values.items()}
