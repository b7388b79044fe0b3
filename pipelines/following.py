"""A server that follows an alias of the registry: each version that the alias gets is loaded, and then served."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from components.errors import KfrecError
from components.inference.model import NamedFiles, named_files, version_of
from components.serving.launch import Processes
from components.serving.worker import ModelFiles


def follow(server: Processes, named: str, files: NamedFiles, held: ExitStack, seconds: float) -> None:
    """Looks at the alias again and again; returns never.

    The version before goes on answering until every process has loaded the new one, and stays if one cannot.

    Args:
        named: ``name@alias``.
        held: closes them once another version is served.
        seconds: between two looks.

    Raises:
        KfrecError: a process of the server has ended.
    """
    refused, printed = "", ""
    while True:
        server.wait(seconds)
        try:
            version = str(version_of(named).version)
            if version in (files.version, refused):
                continue
            with ExitStack() as opened:
                found = opened.enter_context(named_files(f"{files.name}/{version}"))
                if error := server.replace(model_files(found, named)):
                    refused = version
                    _tell(f"{found.described} is not served, so {files.described} stays: {error}")
                    continue
                _tell(f"{found.described} is served instead of {files.described}")
                held.close()
                held.enter_context(opened.pop_all())
            files, refused, printed = found, "", ""
        except KfrecError as error:
            if str(error) != printed:
                _tell(f"{files.described} stays: {error}")
            printed = str(error)


def model_files(files: NamedFiles, named: str) -> ModelFiles:
    """What a server is told of a model; in the log, a folder has the name that was given."""
    return ModelFiles(str(files.folder), files.name, files.version, files.name if files.version else named)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
