"""Packages beside kfrec, such as those of tests/packages, installed for this process and those that it starts."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components import registry

PACKAGES = Path(__file__).parents[1] / "packages"


@contextmanager
def installed(package: str, site: Path, monkeypatch: pytest.MonkeyPatch, packages: Path = PACKAGES) -> Iterator[Path]:
    """Yields the folder of a package's module: its files, beside what an installer notes of it.

    Args:
        package: name of a folder in ``packages``.
        site: folder to install into.
        monkeypatch: puts the site on the paths.
    """
    declared = tomllib.loads((packages / package / "pyproject.toml").read_text())["project"]
    name, version = declared["name"], declared["version"]
    shutil.copytree(packages / package / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    noted = site / f"{name}-{version}.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = ["\n".join((f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())))
              for group, entries in declared["entry-points"].items()]  # fmt: skip
    (noted / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    forget(name)
    yield site / name
    forget(name)


def forget(package: str) -> None:
    """The next use of a package imports it anew."""
    for remembered in vars(registry).values():
        if hasattr(remembered, "cache_clear"):
            remembered.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def edit(file: Path, text: str, other: str) -> None:
    """Replaces a text of a source file that occurs once."""
    before = file.read_text()
    assert before.count(text) == 1
    file.write_text(before.replace(text, other))
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
    forget(file.parent.name)
