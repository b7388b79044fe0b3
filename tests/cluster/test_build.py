"""What is built again, and when, with a ``go`` that writes down what it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster import build

GO = """#!/bin/sh
echo "$@" >> "$ASKED"
case $1 in
  mod) cat module.json ;;
  build) while [ "$1" != -o ]; do shift; done; echo program > "$2" ;;
esac
"""
MODULE = """
{"Tool": [{"Path": "example.org/server/cmd/server"}],
 "Require": [{"Path": "example.org/server", "Version": "v1"}]}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of one program, with an empty cache."""
    folder = tmp_path / "modules" / "server"
    folder.mkdir(parents=True)
    for name, text in (("go.mod", "module server"), ("go.sum", "sums"), ("module.json", MODULE)):
        (folder / name).write_text(text)
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setattr(build, "MODULES", tmp_path / "modules")
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    return folder


def builds(module: Path) -> int:
    return (module.parents[1] / "asked").read_text().count("build ")


def test_a_module_is_built_once_and_again_when_its_pins_change(module: Path) -> None:
    assert build.lacks_build()
    first = build.build()["server"]
    assert (first / "server").read_text() == "program\n" and not build.lacks_build()
    assert build.build()["server"] == first and builds(module) == 1
    (module / "go.sum").write_text("other sums")
    assert build.lacks_build()
    assert build.build()["server"] != first and builds(module) == 2
    assert not first.exists(), "what no module needs is removed"


def test_the_remains_of_a_build_that_was_killed_are_no_program(module: Path) -> None:
    unfinished = module.parents[1] / "cache" / "server-unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "server").write_text("half")
    assert build.lacks_build()
    assert (build.build()["server"] / "server").read_text() == "program\n"


def test_a_build_that_fails_says_what_the_compiler_said(module: Path) -> None:
    go = module.parents[1] / "go"
    go.write_text(GO.replace("build) ", "build) echo undefined: x >&2; exit 1; "))
    with pytest.raises(RuntimeError, match="undefined: x"):
        build.build()
    assert build.lacks_build()
