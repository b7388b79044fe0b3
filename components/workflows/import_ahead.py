"""Imports in the background of a step's work."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread


def import_ahead(module: str) -> None:
    """Begins to import a module; an import statement waits for its end and raises its error.

    A step that is told to stop does not wait for it, since the end of a run leaves half a second to delete a cluster.
    """
    Thread(target=_import, args=(module,), name="import-ahead", daemon=True).start()


def _import(module: str) -> None:
    with suppress(Exception):  # which the import statement raises again
        import_module(module)
