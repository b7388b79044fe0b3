"""The parameters of a step as its manifest records them: with the code and the files that they name.

An output is valid as long as the record is what the step would write now.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components import registry
from components.artifacts.folder import crc32c_of
from components.errors import KfrecError
from components.parameters import as_plain, parameters_of
from components.storage import Unavailable, is_uri, open_store

# Prefixes of the keys beside the parameters, whose names have no dots.
EXTENSION, FILE = "extension.", "file."


def recorded(parameters: Any) -> dict[str, Any]:
    """A parameter dataclass as a JSON-ready dictionary.

    Returns:
        The parameters without passwords; as ``extension.<parameter>`` the packages beside kfrec that provide the data
        set, model or task (``components.registry.extensions``); as ``file.<parameter>`` the version of each file
        that a parameter names.
    """
    plain = as_plain(parameters)
    named = {p.name: getattr(parameters, p.name) for p in parameters_of(type(parameters)) if p.is_file}
    files = {f"{FILE}{name}": version for name, location in named.items() if (version := _version(location))}
    return plain | extension_notes(plain) | files


def extension_notes(choices: Mapping[str, Any]) -> dict[str, str]:
    """The packages beside kfrec that provide a data set, model or task, by ``extension.<parameter>``."""
    return {f"{EXTENSION}{parameter}": used for parameter, used in registry.extensions(choices).items()}


def _version(location: str) -> str:
    """The checksum, or the source's version, of a file; empty if it has none or cannot be read."""
    if not location:
        return ""
    try:
        if not is_uri(location):
            return crc32c_of(Path(location).expanduser())
        folder, _, name = location.rpartition("/")
        info = open_store(folder).stat(name)
        return info.checksum.value if info.checksum else info.version
    except (OSError, KfrecError, Unavailable):
        return ""  # the step that reads it says why
