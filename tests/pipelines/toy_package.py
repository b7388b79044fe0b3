"""The package of tests/toy, installed for this process and those that it starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components import registry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TOY = Path(__file__).parents[1] / "toy"


@contextmanager
def toy_installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields the folder of the package: its files, beside what an installer notes of it."""
    shutil.copytree(_TOY / "toy", site / "toy")
    declared = tomllib.loads((_TOY / "pyproject.toml").read_text())["project"]
    noted = site / "toy-0.1.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toy\nVersion: {declared['version']}\n")
    groups = ["\n".join((f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())))
              for group, entries in declared["entry-points"].items()]  # fmt: skip
    (noted / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    forget()
    yield site / "toy"
    forget()


def forget() -> None:
    """The next use of the package imports it anew."""
    for remembered in (registry._entries, registry._load):
        remembered.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "toy"]:
        del sys.modules[name]


def edit(file: Path, text: str, other: str) -> None:
    """Replaces a text of a source file that occurs once."""
    before = file.read_text()
    assert before.count(text) == 1
    file.write_text(before.replace(text, other))
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
    forget()
