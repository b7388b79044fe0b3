"""The commands: every module of this package is one, under its own name, with hyphens for underscores.

A module brings the command's parser and runs it; a new command is a new module. What takes long to import is imported
where it is used, because every command imports them all.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from typing import Protocol, cast


class Command(Protocol):
    """The interface of a command's module; ``EPILOG``, the end of its help, may be missing.

    Attributes:
        SUMMARY: one line of ``kfrec --help``.
    """

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments to its parser."""

    def execute(self, options: argparse.Namespace) -> int:
        """Runs the command and returns the exit status.

        Raises:
            KfrecError: bad input.
        """


def every_command() -> dict[str, Command]:
    """Name to module, sorted."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name.replace("_", "-"): cast(Command, module) for name, module in modules.items()}
