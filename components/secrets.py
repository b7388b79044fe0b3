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
# What may be addresses, and where one begins: a path that was meant as an address has lost one of its two slashes.
_WORD, _START = re.compile(r"[^\s'\"<>]+"), re.compile(r"(?<=\w\w):/")
# A host and its port, so that the @ belongs to a path or a query.
_HOST = re.compile(r"/?[^:@/?#]*(:\d*)?")
# Signatures and keys in a query.
_SIGNED = re.compile(
    r"([?&#;](?:code|access|(?:[\w.-]*(?:sig|signature|token|secret|pass|passwd|password|pwd|credential|accesskeyid|key|auth|"
    r"sas|jwt|bearer|hmac|session|sessionid)))=)[^&\s]+",
    re.I,
)


def without_password(text: str) -> str:
    """A URI, or a text with URIs, with ``***`` for each password, signature and token."""
    return _SIGNED.sub(rf"\1{HIDDEN}", _WORD.sub(_hidden, text) if "@" in text else text)


def _hidden(found: re.Match[str]) -> str:
    """A word, without what stands before the last @ of each address in it; a password may hold any character."""
    first, *addresses = _START.split(found[0])
    return ":/".join([first, *map(_without_user, addresses)])


def _without_user(address: str) -> str:
    before, at, after = address.rpartition("@")
    host = re.match(r"/?[^/?#]*", before)
    assert host is not None
    if not at or (host[0] != before and _HOST.fullmatch(host[0])):
        return address
    user, colon, _ = before.removeprefix("/").partition(":")
    # A name alone is a token.
    shown = f"{user}:{HIDDEN}" if colon and not re.search("[/?#@]", user) else HIDDEN
    return f"{'/' * before.startswith('/')}{shown}@{after}"


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
