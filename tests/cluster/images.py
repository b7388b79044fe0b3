"""The images that a test cluster's pods run, built with podman on a stand-in for their base, and without CUDA."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.images import VERSION
from images.build import ROOT, load_images
from tests.cluster.bases import BASE, make_base
from tests.cluster.build import CACHE
from tests.cluster.containerd import write_config
from tests.cluster.isolation import isolated
from tests.waiting import wait_for

PAUSE = "localhost/kfrec-pause:1"
# None that exists; the overlays' own is a placeholder that `kfrec doctor` refuses.
REGISTRY = "registry.kfrec.internal"
POSTGRES = "docker.io/library/postgres:16.13-bookworm"
KUEUE = "localhost/kfrec-kueue:1"
_IDENTITIES = "images.json"
_POSTGRES = Path(__file__).with_name("postgres")
_SOURCES = [
    ROOT / name
    for name in (
        "images",
        "components",
        "pipelines",
        "benchmarks",
        "pyproject.toml",
        "uv.lock",
        "README.md",
        ".ci/uv.txt",
    )
]
# podman asks for more than a machine may give that is a container itself.
_LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")


def image_store(programs: Mapping[str, Path]) -> Path:
    """A containerd's folder that has all images of a node, unpacked.

    It is kept under the digest of what the images are made from: building takes minutes even if nothing has changed,
    and so does unpacking. A node needs only a copy of hard links (:func:`copy_store`).

    Args:
        programs: modules' names to folders with their programs.

    Raises:
        RuntimeError: a build failed, or no container starts here.
    """
    place = CACHE / f"images-{_digest(programs)}"
    if not place.is_dir():
        unfinished, removed = CACHE / "images.unfinished", CACHE / "images.removed"
        for remains in (unfinished, removed):
            shutil.rmtree(remains, ignore_errors=True)
        names = _built(programs)
        command = ["podman", "image", "inspect", "--format", "{{.Id}}", *names]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        earlier = list(CACHE.glob("images-*"))
        _unpack(dict(zip(names, told.split(), strict=True)), unfinished, earlier[:1])
        unfinished.rename(place)
        for store in earlier:
            store.rename(removed)  # one that is removed by half is no store
            shutil.rmtree(removed)
    return place


def _digest(programs: Mapping[str, Path]) -> str:
    """Of the sources of the images."""
    digest = hashlib.sha256(programs["kueue"].name.encode())
    for place in (*_SOURCES, Path(__file__), Path(__file__).with_name("bases.py"), _POSTGRES):
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _built(programs: Mapping[str, Path]) -> list[str]:
    """Builds kfrec's images, and those that a node needs beside them; returns their names."""
    base = make_base()
    runtime = _runtime()
    names = []
    for name, image in load_images().items():
        tag = f"{REGISTRY}/kfrec-{name}:{VERSION}"
        values = {"BASE": base, "CUDA": "", **image.without_gpu().arguments}
        _build(runtime, ROOT / "images" / name / "Dockerfile", tag, values, ROOT)
        names.append(tag)
    _build(runtime, _POSTGRES / "Dockerfile", POSTGRES, {"BASE": base}, _POSTGRES)
    _podman(["build", "-q", "-t", PAUSE, "-"], f'FROM {base}\nENTRYPOINT ["sleep", "infinity"]\n')
    manager = "FROM scratch\nCOPY kueue /manager\nUSER 65532:65532\n"
    _podman(["build", "-q", "-t", KUEUE, "-f", "-", str(programs["kueue"])], manager)
    return [PAUSE, POSTGRES, KUEUE, *names]


def _unpack(identities: Mapping[str, str], target: Path, earlier: Sequence[Path]) -> None:
    """Imports podman's images into a containerd's folder.

    Args:
        identities: image names to their identifiers.
        target: the folder.
        earlier: another such folder, if there is one, which has what has not changed.
    """
    known = {}
    for store in earlier:
        copy_store(store, target)
        known = json.loads((store / _IDENTITIES).read_text())
    folder = CACHE / "import"
    config, socket = folder / "containerd.toml", folder / "containerd.sock"
    waiting = 'until [ -e "$0" ]; do sleep 0.1; done; exec containerd --log-level fatal --config "$0"'
    with isolated(folder, "sh", "-c", waiting, str(config)):
        write_config(config, target, socket, PAUSE)
        wait_for(socket.is_socket)
        for name, identity in identities.items():
            if known.get(name) != identity:
                _import(name, socket)
    (target / _IDENTITIES).unlink(missing_ok=True)  # a link to the earlier one's
    (target / _IDENTITIES).write_text(json.dumps(identities))


def copy_store(store: Path, target: Path) -> None:
    """Copies a containerd's folder: its databases, and links to everything else, which is never changed."""
    subprocess.run(["cp", "--archive", "--link", str(store), str(target)], check=True)
    for database in target.glob("*/*.db"):  # not those of the images
        database.unlink()
        shutil.copy(store / database.relative_to(target), database)


def _import(name: str, socket: Path) -> None:
    saving = subprocess.Popen(
        ["podman", "save", "--format", "oci-archive", "--uncompressed", name],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    command = ["ctr", "--address", str(socket), "--namespace", "k8s.io", "images", "import", "-"]
    done = subprocess.run(command, stdin=saving.stdout, capture_output=True, text=True)
    _, told = saving.communicate()
    if done.returncode or saving.returncode:
        raise RuntimeError(f"{name}: {told.decode()[-2000:]}{done.stderr[-2000:]}")


def _runtime() -> list[str]:
    """The option of the first runtime that starts a container here."""
    reasons = []
    for runtime in ([], ["--runtime", "runc"], ["--runtime", "crun"]):
        options = ["--rm", "--network=host", *_LIMITS, "--entrypoint", "true"]
        done = subprocess.run(["podman", *runtime, "run", *options, BASE], capture_output=True, text=True)
        if done.returncode == 0:
            return runtime
        reasons.append(" ".join(done.stderr.split()))
    raise RuntimeError("; ".join(reasons))


def _build(runtime: list[str], dockerfile: Path, tag: str, values: dict[str, str], folder: Path) -> None:
    given = [f"--build-arg={name}={value}" for name, value in values.items()]
    options = ["--network=host", *_LIMITS, "-f", str(dockerfile), "-t", tag, *given, str(folder)]
    _podman([*runtime, "build", *options])


def _podman(arguments: list[str], given: str = "") -> None:
    done = subprocess.run(["podman", *arguments], input=given, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"podman {' '.join(arguments[:4])}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
