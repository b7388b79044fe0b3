"""``make`` on a machine whose Python is none that kfrec runs with."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = ROOT / ".uv" / "bin" / "uv"
TOOLS = ("make", "bash", "sh", "env", "ln", "nproc", "test", "uname", "ldd")
# Where uv finds its Pythons, unless a mirror stands for it.
SOURCE = "https://github.com/astral-sh/python-build-standalone/releases/download"
ARCHIVE = "20260101/cpython-3.13.0+20260101-install_only.tar.gz"
LEFT_OUT = {"test", "tests", "site-packages", "dist-packages", "__pycache__", "idlelib", "tkinter", "lib2to3"}

pytestmark = pytest.mark.skipif(
    not UV.exists() or sys.version_info[:2] != (3, 13) or platform.machine() != "x86_64",
    reason="needs make's own uv, and a Python 3.13 of x86-64 to fill the mirror with",
)


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror of one Python: that of this process, packed as uv expects."""
    folder = tmp_path_factory.mktemp("mirror")
    (folder / ARCHIVE).parent.mkdir()
    base = Path(sys.base_prefix)
    with tarfile.open(folder / ARCHIVE, "w:gz", compresslevel=1) as archive:
        archive.add(os.path.realpath(sys.executable), "python/bin/python3.13")
        for shared in (base / "lib").glob("libpython3*"):
            archive.add(shared, f"python/lib/{shared.name}")
        archive.add(
            base / "lib/python3.13",
            "python/lib/python3.13",
            filter=lambda info: None if LEFT_OUT & {*info.name.split("/")} or "/config-" in info.name else info,
        )
    known = {
        "name": "cpython", "arch": {"family": "x86_64", "variant": None}, "os": "linux",
        "libc": "musl" if "musl" in str(sys.implementation._multiarch) else "gnu",
        "major": 3, "minor": 13, "patch": sys.version_info.micro, "prerelease": "", "url": f"{SOURCE}/{ARCHIVE}",
        "sha256": None, "variant": None, "build": "20260101",
    }  # fmt: skip
    key = f"cpython-3.13.{known['patch']}-linux-x86_64-{known['libc']}"
    (folder / "downloads.json").write_text(json.dumps({key: known}))
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with a newer Python only; the folder ``clone`` has the Makefile and its uv."""
    tools, clone = tmp_path / "bin", tmp_path / "clone"
    (clone / ".uv" / "bin").mkdir(parents=True)
    (clone / ".uv" / "bin" / "uv").symlink_to(UV)
    shutil.copy(ROOT / "Makefile", clone)
    tools.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    newer = tools / "python3"
    newer.write_text("#!/bin/sh\nexit 1\n")  # it says that it is no Python 3.11 to 3.13
    newer.chmod(0o755)
    return {"PATH": str(tools), "HOME": str(tmp_path)}


def make(machine: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    clone = Path(machine["HOME"]) / "clone"
    return subprocess.run(["make", *words], cwd=clone, env=machine, capture_output=True, text=True)


@pytest.mark.slow
def test_uv_brings_a_python_from_the_mirror_and_says_so(machine: dict[str, str], mirror: Path) -> None:
    places = {
        "UV_PYTHON_INSTALL_MIRROR": f"file://{mirror}",
        "UV_PYTHON_DOWNLOADS_JSON_URL": f"file://{mirror / 'downloads.json'}",
    }
    done = make(machine | places, ".uv/python3.13")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no Python 3.11 to 3.13 found: uv brings a Python 3.13 into .uv")
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    home = Path(machine["HOME"])
    brought = home / "clone" / ".uv" / "python3.13"
    code = "import sys; print(*sys.version_info[:2], sys.prefix)"
    told = subprocess.run([brought, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told[:2] == ["3", "13"] and Path(told[2]).is_relative_to(home / "clone" / ".uv")
    assert not (home / ".local").exists(), "nothing outside the clone"
    assert make(machine, ".uv/python3.13").stdout == "make: '.uv/python3.13' is up to date.\n"


def test_the_environment_is_made_with_what_uv_brought(machine: dict[str, str]) -> None:
    told = make(machine, "-n", "setup", "-o", "pyproject.toml", "-o", "uv.lock").stdout
    assert told.index("python install") < told.index(
        "sync --locked --all-extras --no-extra gpu --python .uv/python3.13"
    )


def test_where_there_is_a_python_that_fits_uv_brings_none(machine: dict[str, str]) -> None:
    own = Path(machine["PATH"]) / "python3.13"
    own.symlink_to(sys.executable)
    told = make(machine, "-n", "setup", "-o", "pyproject.toml", "-o", "uv.lock").stdout
    assert "python install" not in told and f"sync --locked --all-extras --no-extra gpu --python {own}" in told


def test_a_mirror_that_has_nothing_is_an_error_of_uv(machine: dict[str, str], mirror: Path, tmp_path: Path) -> None:
    places = {
        "UV_PYTHON_INSTALL_MIRROR": f"file://{tmp_path}",
        "UV_PYTHON_DOWNLOADS_JSON_URL": f"file://{mirror / 'downloads.json'}",
    }
    done = make(machine | places, ".uv/python3.13")
    assert done.returncode == 2 and ARCHIVE.split("/")[1] in done.stderr
    assert not (tmp_path / "clone" / ".uv" / "python3.13").exists()


def test_without_any_python_one_line_says_so(machine: dict[str, str]) -> None:
    (Path(machine["PATH"]) / "python3").unlink()
    (Path(machine["HOME"]) / "clone" / ".uv" / "bin" / "uv").unlink()
    done = make(machine, ".uv/bin/uv")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no Python found; install Python 3.11 or newer, or say make PYTHON=")


def test_a_python_without_headers_is_told_before_anything_is_installed(machine: dict[str, str]) -> None:
    bare, compiler = Path(machine["PATH"]) / "python3.13", Path(machine["PATH"]) / "c++"
    elsewhere = "import sys, sysconfig; sysconfig.get_path = lambda name: '/none'; exec(sys.argv[1])"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{elsewhere}" "$2"\n')
    compiler.write_text("#!/bin/sh\n")
    for tool in (bare, compiler):
        tool.chmod(0o755)
    done = make(machine, "setup", f"PYTHON={bare}", "-o", "pyproject.toml", "-o", "uv.lock")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {bare} has no headers (Python.h); NVTabular needs them from Python 3.12 on")
