"""A stand-in for the base of kfrec's images, a slim Debian 13 with Python 3.13: by debootstrap."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

SUITE = "trixie"
PACKAGES = "python3,python3-venv,python3-dev,python-is-python3,ca-certificates,apt-utils"
BASE = "localhost/kfrec-test-base"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def make_base() -> str:
    """The name of the stand-in; it is made if it does not exist.

    It has this machine's certificates and package sources, since the build asks the same servers.
    """
    if subprocess.run(["podman", "image", "exists", BASE]).returncode:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root"
            _run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), *mirror()])
            shutil.copy(_CERTIFICATES, root / _CERTIFICATES.relative_to("/"))
            for archive in (root / "var/cache/apt/archives").glob("*.deb"):
                archive.unlink()
            _run(["sh", "-c", f"tar -C {root} -c . | podman import -q - {BASE}"])
    return BASE


def mirror() -> list[str]:
    """The first source of this machine's packages that is one of Debian's; none is debootstrap's own choice."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], capture_output=True, text=True
    )
    return [uri for uri in told.stdout.splitlines() if uri.rstrip("/").endswith("/debian")][:1]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
