"""``kfrec models``: the installed models."""

from __future__ import annotations

import argparse

from components import registry
from components.errors import KfrecError

SUMMARY = "list the models that are installed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds none."""


def execute(options: argparse.Namespace) -> int:
    """Lists the models; of a broken one it says what is wrong."""
    for name in registry.names(registry.MODELS):
        try:
            summary = registry.model(name).summary
        except KfrecError as error:
            summary = f"broken: {error}"
        print(f"{name:<16} {summary}")
    return 0
