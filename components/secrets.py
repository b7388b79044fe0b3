"""Redacts passwords in manifests, MLflow, run.json and logs."""

from __future__ import annotations

import re
from typing import Any

# Replaces a redacted password.
HIDDEN = "***"
# What stands before the last @ of an address and its query; a secret key may hold slashes.
_BEFORE_AT = re.compile(r"(?<=://)([^\s?#'\"<>]*)@")
# A host and its port, so that the @ belongs to a path.
_HOST = re.compile(r"[^:]*(:\d*)?")
# Signatures and keys in a query.
_SIGNED = re.compile(
    r"([?&](?:[\w.-]*(?:sig|signature|token|secret|pass|passwd|password|pwd|credential|accesskeyid|key|auth))=)[^&\s]+",
    re.I,
)


def without_password(text: str) -> str:
    """A URI, or a text with URIs, with ``***`` for each password, signature and token."""
    return _SIGNED.sub(rf"\1{HIDDEN}", _BEFORE_AT.sub(_hidden, text))


def _hidden(found: re.Match[str]) -> str:
    before, slash, _ = found[1].partition("/")
    if slash and _HOST.fullmatch(before):
        return found[0]
    user, colon, _ = before.partition(":")
    # A name alone is a token.
    return f"{user}:{HIDDEN}@" if colon else f"{HIDDEN}@"


def without_passwords(values: dict[str, Any]) -> dict[str, Any]:
    """The same for all text values."""
    return {name: without_password(value) if isinstance(value, str) else value for name, value in values.items()}
