"""Stand-ins for the bases of kfrec's images: Debian by debootstrap, and on it what NVIDIA's images bring."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from images.build import ROOT, Image

SUITE, PYTHON = "bookworm", (3, 11)
PACKAGES = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates,apt-utils"
# Where the stand-in has TensorFlow, Horovod and Open MPI: where no shell and no loader looks by itself.
PREFIX = "/opt/base"
SITE = f"{PREFIX}/lib/python3.11/site-packages"
CPU = "localhost/kfrec-test-base-cpu"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def base_of(made: Image, uv: str) -> str:
    """The name of the stand-in for an image's base; it is made if it does not exist."""
    if not _exists(CPU):
        _make_cpu_base()
    if not made.provided:
        return CPU
    name = f"localhost/kfrec-test-base-{made.name}"
    if not _exists(name):
        _make_base_with_packages(made, uv, name)
    return name


def _exists(image: str) -> bool:
    return subprocess.run(["podman", "image", "exists", image]).returncode == 0


def _make_cpu_base() -> None:
    """A slim Python 3.11.

    It has this machine's certificates and package sources, since the build asks the same servers.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        _run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), *mirror()])
        shutil.copy(_CERTIFICATES, root / _CERTIFICATES.relative_to("/"))
        for archive in (root / "var/cache/apt/archives").glob("*.deb"):
            archive.unlink()
        _run(["sh", "-c", f"tar -C {root} -c . | podman import -q - {CPU}"])


def mirror() -> list[str]:
    """The first source of this machine's packages that has the suite; none is debootstrap's own choice."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
        capture_output=True, text=True,
    )  # fmt: skip
    found = [line.split() for line in told.stdout.splitlines()]
    return [entry[0] for entry in found if entry[1:] == [SUITE]][:1]


def _make_base_with_packages(made: Image, uv: str, name: str) -> None:
    """The packages that an image's base provides, with all that only these need, from this environment."""
    if sys.version_info[:2] != PYTHON:
        raise RuntimeError(f"the environment has Python {sys.version_info[0]}.{sys.version_info[1]}, {SUITE} has 3.11")
    everything = _names(dataclasses.replace(made, provided=()), uv)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        for package in everything - _names(made, uv):
            found = distribution(package)
            for file in found.files or ():
                source, target = Path(str(found.locate_file(file))), root / os.path.normpath(f".{SITE}/{file}")
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, target, follow_symlinks=False)
        (Path(folder) / "Dockerfile").write_text(
            f"FROM {CPU}\nCOPY root /\nENV PATH={PREFIX}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "
            f"PYTHONPATH={SITE} LD_LIBRARY_PATH={PREFIX}/lib OPAL_PREFIX={PREFIX}\n"
        )
        _run(["podman", "build", "-q", "-t", name, folder])


def _names(made: Image, uv: str) -> set[str]:
    done = subprocess.run(made.export_command(uv), cwd=ROOT, capture_output=True, text=True, check=True)
    requirements = [Requirement(line.rstrip(" \\")) for line in done.stdout.splitlines() if line[:1].strip()]
    return {made.name for made in requirements if made.marker is None or made.marker.evaluate()}


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
