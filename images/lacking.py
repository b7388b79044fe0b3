"""Installs kfrec and its requirements that a base image lacks: ``python lacking.py SOURCE REQUIREMENTS TARGET``.

Base packages with a compatible version stay in use: TARGET comes first on the PYTHONPATH, and the base's packages were
built and tested with the base's versions.

SOURCE is kfrec's source; REQUIREMENTS are all its requirements in this image, pinned with hashes. The image build runs
this with the base's Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

try:
    from packaging.requirements import Requirement
except ImportError:  # every pip carries it
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[import-not-found, no-redef]

_KFREC = "kfrec"


def main() -> int:
    source, requirements, target = sys.argv[1:]
    pinned = pins(Path(requirements).read_text())

    def install(names: Iterable[str]) -> None:
        # Into an empty folder: pip does not merge into an existing namespace package such as google.
        shutil.rmtree(target, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-deps", "--target", target]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(pinned[name] for name in sorted(names)))
            file.flush()
            subprocess.run([*pip, "--require-hashes", "-r", file.name], check=True)
        subprocess.run([*pip, source], check=True)

    base = {normal(found.metadata["Name"]): found.version for found in distributions()}
    install_lacking(pinned, base, install, lambda: distributions(path=[target]))
    return 0


def pins(text: str) -> dict[str, str]:
    """Package name to its lines: one requirement, or one per Python version."""
    found: dict[str, str] = {}
    for block in re.findall(r"^[A-Za-z0-9].*(?:\n[ \t].*)*\n?", text.rstrip("\n") + "\n", re.M):
        name = normal(re.split(r"[=\s;\[]", block, maxsplit=1)[0])
        found[name] = found.get(name, "") + block
    return found


def install_lacking(
    pinned: Mapping[str, str],
    base: Mapping[str, str],
    install: Callable[[Iterable[str]], None],
    installed: Callable[[], Iterable[Distribution]],
) -> set[str]:
    """Installs packages that the base lacks, then those incompatible with the packages installed so far.

    Args:
        pinned: requirements, by name.
        base: version of each package of the base.
        install: installs kfrec and the packages of these names, and nothing else.
        installed: returns the distributions installed so far.

    Returns:
        The names of the installed packages.
    """
    done: set[str] = set()
    missing = set(pinned) - set(base)
    while True:
        done |= missing
        install(done)
        missing = _refused(base, installed()) & set(pinned) - done
        if not missing:
            break
    kept = sorted(set(pinned) & set(base) - done)
    print(f"kept of the base: {' '.join(f'{name}=={base[name]}' for name in kept)}")
    return done


def _refused(base: Mapping[str, str], installed: Iterable[Distribution]) -> set[str]:
    """The base's packages with an incompatible version."""
    refused = set()
    for distribution in installed:
        # All of kfrec's extras count, as unpinned packages are filtered later; other packages' extras do not.
        own = normal(distribution.metadata["Name"]) == _KFREC
        for text in distribution.requires or ():
            requirement = Requirement(text)
            name = normal(requirement.name)
            applies = requirement.marker is None or own or requirement.marker.evaluate({"extra": ""})
            if applies and name in base and not requirement.specifier.contains(base[name], prereleases=True):
                refused.add(name)
    return refused


def normal(name: str) -> str:
    """A package's normalised name."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
