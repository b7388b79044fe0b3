"""Redacts passwords in manifests, MLflow, run.json and logs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

# The environment variable by which a child process gets what its arguments show without passwords: JSON, from what is
# shown to what it stands for. Other users of a machine see a process's arguments, and not its environment.
VARIABLE = "KFREC_SECRETS"
# Replaces a redacted password.
HIDDEN = "***"
# What stands before the last @ of an address and its query; a secret key may hold slashes. A path that was meant as an
# address has lost one of its two slashes.
_BEFORE_AT = re.compile(r"(?<=\w\w:/)(/?)([^\s?#'\"<>]*)@")
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
    before, slash, _ = found[2].partition("/")
    if slash and _HOST.fullmatch(before):
        return found[0]
    user, colon, _ = before.partition(":")
    # A name alone is a token.
    return found[1] + (f"{user}:{HIDDEN}@" if colon else f"{HIDDEN}@")


def without_passwords(values: dict[str, Any]) -> dict[str, Any]:
    """The same for all text values."""
    return {name: without_password(value) if isinstance(value, str) else value for name, value in values.items()}


def secrets_variable(values: Mapping[str, Any]) -> str:
    """The content of VARIABLE for values that are shown ``without_passwords``."""
    texts = {value for value in values.values() if isinstance(value, str)}
    return json.dumps({shown: text for text in texts if (shown := without_password(text)) != text})


def with_passwords(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they were before ``without_passwords``, by VARIABLE; others stay as they are."""
    known = json.loads(os.environ.get(VARIABLE) or "{}")
    return {name: known.get(value, value) if isinstance(value, str) else value for name, value in values.items()}
