"""Builds the servers of the test cluster from their published Go modules: ``python -m tests.cluster.build [--check]``.

Each folder of ``modules`` is a Go module that names its programs in ``tool`` lines and pins them in ``go.sum``. What is
built from it is kept under a name that has the digest of both files, so an unchanged module is built once. ``--check``
builds nothing; it exits with 1 if something has to be built.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfrec" / "cluster"
# Manifests that a module's archive has beside its program.
_MANIFESTS = {
    "mpi-operator": ("github.com/kubeflow/mpi-operator", "manifests/base"),
    "kueue": ("sigs.k8s.io/kueue", "config"),
}
_FLAGS = ("-trimpath", "-p", "2", "-buildvcs=false")
_LINKED = "-s -w"
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def build() -> dict[str, Path]:
    """Builds what the cache lacks and returns each module's folder, which has its programs and their manifests.

    Raises:
        RuntimeError: a build failed; the message ends with what the compiler says.
    """
    return {module.name: _built(module) for module in sorted(MODULES.iterdir())}


def lacks_build() -> bool:
    """Whether a module is not in the cache."""
    return any(not _place(module).is_dir() for module in MODULES.iterdir())


def _place(module: Path) -> Path:
    digest = hashlib.sha256(json.dumps([_FLAGS, _LINKED, platform.machine(), _MANIFESTS.get(module.name)]).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    return CACHE / f"{module.name}-{digest.hexdigest()[:16]}"


def _built(module: Path) -> Path:
    place = _place(module)
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / f"{module.name}.lock"):
        if place.is_dir():
            return place
        for earlier in CACHE.glob(f"{module.name}-*"):
            shutil.rmtree(earlier)
        started = time.monotonic()
        unfinished = CACHE / f"{module.name}-unfinished"
        unfinished.mkdir()
        for name, package in _programs(module).items():
            linked = f"{_LINKED} -X k8s.io/component-base/version.gitVersion={_version(module)}"
            _go(module, "build", *_FLAGS, "-ldflags", linked, "-o", str(unfinished / name), package)
        if module.name in _MANIFESTS:
            source, folder = _MANIFESTS[module.name]
            found = _go(module, "list", "-m", "-f", "{{.Dir}}", source).strip()
            shutil.copytree(Path(found) / folder, unfinished / "manifests")
        unfinished.rename(place)
    print(f"{time.monotonic() - started:6.0f} s  built {', '.join(_programs(module))} {_version(module)}", flush=True)
    return place


def _tools(module: Path) -> list[str]:
    edited = json.loads(_go(module, "mod", "edit", "-json"))
    return [tool["Path"] for tool in edited["Tool"]]


def _programs(module: Path) -> dict[str, str]:
    """Packages by their programs' names; the only program of a module has the module's."""
    tools = _tools(module)
    return {module.name if len(tools) == 1 else package.rsplit("/", 1)[-1]: package for package in tools}


def _version(module: Path) -> str:
    tool = _tools(module)[0]
    required = json.loads(_go(module, "mod", "edit", "-json"))["Require"]
    (version,) = [entry["Version"] for entry in required if f"{tool}/".startswith(f"{entry['Path']}/")]
    return str(version)


def _go(module: Path, *arguments: str) -> str:
    environment = os.environ | _ENVIRONMENT
    command = ["go", *arguments]
    done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module}: go {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return int(lacks_build())
    try:
        build()
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
