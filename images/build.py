"""Builds the images: ``python -m images.build [--registry PREFIX] [--revision NAME] [--push] [--dry-run] [IMAGE ...]``.

Each installs its extras from uv.lock.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from components.images import VERSION

ROOT = Path(__file__).parents[1]
PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class Image:
    """One entry of images.yaml."""

    name: str
    base: str
    extras: tuple[str, ...]
    steps: tuple[str, ...]
    imports: tuple[str, ...]
    digest: str = ""

    def without_gpu(self) -> Image:
        """The same image with TensorFlow for CPUs, to be built with ``CUDA=``."""
        return replace(self, extras=tuple("tensorflow" if extra == "gpu" else extra for extra in self.extras))

    @property
    def arguments(self) -> dict[str, str]:
        """Arguments of the build that say what is in the image."""
        return {
            "EXTRAS": " ".join(f"--extra {extra}" for extra in self.extras),
            "IMPORTS": " ".join(self.imports),
        }

    def build_command(self, registry: str, revision: str, push: bool) -> list[str]:
        """The command that builds the image for a registry, and pushes or loads it."""
        tag = f"{registry.rstrip('/')}/kfrec-{self.name}:{VERSION}" if registry else f"kfrec-{self.name}:{VERSION}"
        values = {
            "BASE": self.base,
            "DIGEST": self.digest,
            "VERSION": VERSION,
            "REVISION": revision,
            **self.arguments,
        }
        arguments = [word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")]
        # A pushed image has a list of all that is in it, of the system, too; the local store of images cannot hold one.
        end = ["--push", "--sbom=true"] if push else ["--load"]
        dockerfile = f"images/{self.name}/Dockerfile"
        return ["docker", "buildx", "build", "--platform", PLATFORM, "-f", dockerfile, "-t", tag, *arguments, *end, "."]


def load_images() -> dict[str, Image]:
    """The images by name."""
    digests = yaml.safe_load((ROOT / "images" / "digests.yaml").read_text())
    entries = yaml.safe_load((ROOT / "images" / "images.yaml").read_text())
    return {
        name: Image(
            name,
            entry["base"],
            extras=tuple(entry["extras"]),
            steps=tuple(entry["steps"]),
            imports=tuple(entry["imports"]),
            digest=digests[name],
        )
        for name, entry in entries.items()
    }


def main() -> int:
    images = load_images()
    parser = argparse.ArgumentParser(prog="python -m images.build", description="Build the images.")
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"of {', '.join(images)}; default all")
    parser.add_argument("--registry", default="", metavar="PREFIX", help="prefix of the images' names")
    parser.add_argument(
        "--revision", metavar="NAME", help="revision of the sources, recorded in the image; default git's HEAD"
    )
    parser.add_argument("--push", action="store_true", help="push instead of keeping the image here")
    parser.add_argument("--dry-run", action="store_true", help="only print the commands")
    options = parser.parse_args()
    if unknown := set(options.images) - set(images):
        parser.error(f"unknown image {', '.join(sorted(unknown))}; the images are {', '.join(images)}")
    try:
        revision = options.revision or _output(["git", "rev-parse", "HEAD"])
    except (OSError, subprocess.CalledProcessError):
        parser.error(f"git finds no revision of {ROOT}; give --revision NAME, or make images REVISION=NAME")
    for name in options.images or images:
        image = images[name]
        command = image.build_command(options.registry, revision, options.push)
        if not image.digest:
            print(f"{name}: images/digests.yaml pins no content of {image.base}", file=sys.stderr)
        print(shlex.join(command), flush=True)
        if not options.dry_run:
            subprocess.run(command, cwd=ROOT, check=True)
    return 0


def _output(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
