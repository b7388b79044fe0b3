"""The images that a test cluster's pods run, built with podman on stand-ins of their bases."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from components.images import VERSION
from images.build import REQUIREMENTS, ROOT, Image, load_images
from tests.cluster.bases import CPU, base_of
from tests.cluster.build import CACHE
from tests.cluster.containerd import write_config
from tests.cluster.isolation import isolated
from tests.waiting import wait_for

PAUSE = "localhost/kfrec-pause:1"
REGISTRY = "registry.example.org"
POSTGRES = "docker.io/library/postgres:16.4"
_UV = str(ROOT / ".uv" / "bin" / "uv")
# podman asks for more than a machine may give that is a container itself.
_LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")


def build_images() -> list[str]:
    """Builds kfrec's images, and those that a node needs beside them; returns their names.

    Raises:
        RuntimeError: a build failed, or no container starts here.
    """
    made = load_images()
    bases = {name: base_of(image, _UV) for name, image in made.items()}
    runtime = _runtime()
    names = []
    for name, image in made.items():
        tag = f"{REGISTRY}/kfrec-{name}:{VERSION}"
        _write_requirements(image)
        values = {"BASE": bases[name], "IMPORTS": " ".join(image.imports)}
        _build(runtime, ROOT / "images" / name / "Dockerfile", tag, values, ROOT)
        names.append(tag)
    folder = Path(__file__).parent / "postgres"
    _build(runtime, folder / "Dockerfile", POSTGRES, {"BASE": CPU}, folder)
    _podman(["build", "-q", "-t", PAUSE, "-"], f'FROM {CPU}\nENTRYPOINT ["sleep", "infinity"]\n')
    return [PAUSE, POSTGRES, *names]


def image_store(names: list[str]) -> Path:
    """A containerd's folder that has images of podman, unpacked; made anew when one of them has changed.

    Unpacking takes minutes, and a node needs only a copy of hard links (:func:`copy_store`).
    """
    command = ["podman", "image", "inspect", "--format", "{{.Id}}", *names]
    identities = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    place = CACHE / f"images-{hashlib.sha256(identities.encode()).hexdigest()[:16]}"
    if not place.is_dir():
        for earlier in CACHE.glob("images-*"):
            shutil.rmtree(earlier)
        unfinished = CACHE / "images-unfinished"
        folder = CACHE / "import"
        config, socket = folder / "containerd.toml", folder / "containerd.sock"
        waiting = 'until [ -e "$0" ]; do sleep 0.1; done; exec containerd --log-level error --config "$0"'
        with isolated(folder, "sh", "-c", waiting, str(config)):
            write_config(config, unfinished, socket, PAUSE)
            wait_for(socket.is_socket)
            for name in names:
                _import(name, socket)
        unfinished.rename(place)
    return place


def copy_store(store: Path, target: Path) -> None:
    """Copies a containerd's folder: its databases, and links to everything else, which is never changed."""
    subprocess.run(["cp", "--archive", "--link", str(store), str(target)], check=True)
    for database in target.rglob("*.db"):
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


def _write_requirements(image: Image) -> None:
    REQUIREMENTS.mkdir(parents=True, exist_ok=True)
    exported = subprocess.run(image.export_command(_UV), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (REQUIREMENTS / f"{image.name}.txt").write_text(exported)


def _runtime() -> list[str]:
    """The option of the first runtime that starts a container here."""
    reasons = []
    for runtime in ([], ["--runtime", "runc"], ["--runtime", "crun"]):
        options = ["--rm", "--network=host", *_LIMITS, "--entrypoint", "true"]
        done = subprocess.run(["podman", *runtime, "run", *options, CPU], capture_output=True, text=True)
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
