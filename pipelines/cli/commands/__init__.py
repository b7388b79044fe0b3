"""The commands: one per module of this package, named after it, with hyphens for underscores.

A module defines the command's arguments and runs it; a new command is a new module. Slow imports belong inside the
functions, because every command imports all modules.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from typing import Protocol, cast


class Command(Protocol):
    """The interface of a command's module; ``EPILOG``, the end of its help, is optional.

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
