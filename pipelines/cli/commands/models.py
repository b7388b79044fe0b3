"""``kfrec models``: the installed models."""

from __future__ import annotations

import argparse

from components import registry

SUMMARY = "list the models that are installed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds none."""


def execute(options: argparse.Namespace) -> int:
    for name in registry.names(registry.MODELS):
        print(f"{name:<16} {registry.model(name).summary}")
    return 0
