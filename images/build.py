"""Builds the images: ``python -m images.build [--registry PREFIX] [--revision NAME] [--push] [--dry-run] [IMAGE ...]``.

Every build exports an image's requirements from uv.lock, so they are never stale.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from components.images import VERSION

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "build" / "images"
PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class Image:
    """One entry of images.yaml."""

    name: str
    base: str
    extras: tuple[str, ...]
    provided: tuple[str, ...]
    steps: tuple[str, ...]
    imports: tuple[str, ...]
    digest: str = ""

    def export_command(self, uv: str) -> list[str]:
        """The command that writes the image's requirements, with hashes, to stdout."""
        extras = [word for extra in self.extras for word in ("--extra", extra)]
        left_out = [word for name in self.provided for word in ("--prune", name, "--no-emit-package", name)]
        shared = ["--locked", "--no-default-groups", "--no-emit-project", "--no-header", "--no-annotate"]
        return [uv, "export", *shared, *extras, *left_out]

    def build_command(self, registry: str, revision: str, push: bool) -> list[str]:
        """The command that builds the image for a registry, and pushes or loads it."""
        tag = f"{registry.rstrip('/')}/kfrec-{self.name}:{VERSION}" if registry else f"kfrec-{self.name}:{VERSION}"
        values = {
            "BASE": self.base,
            "DIGEST": self.digest,
            "VERSION": VERSION,
            "REVISION": revision,
            "IMPORTS": " ".join(self.imports),
        }
        arguments = [word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")]
        end = ["--push"] if push else ["--load"]
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
            provided=tuple(entry["provided"]),
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
    parser.add_argument("--uv", default=str(ROOT / ".uv" / "bin" / "uv"), metavar="FILE", help="default %(default)s")
    options = parser.parse_args()
    if unknown := set(options.images) - set(images):
        parser.error(f"unknown image {', '.join(sorted(unknown))}; the images are {', '.join(images)}")
    try:
        revision = options.revision or _output(["git", "rev-parse", "HEAD"])
    except (OSError, subprocess.CalledProcessError):
        parser.error(f"git finds no revision of {ROOT}; give --revision NAME, or make images REVISION=NAME")
    REQUIREMENTS.mkdir(parents=True, exist_ok=True)
    for name in options.images or images:
        image = images[name]
        command = image.build_command(options.registry, revision, options.push)
        if not image.digest:
            print(f"{name}: images/digests.yaml pins no content of {image.base}", file=sys.stderr)
        print(shlex.join(command), flush=True)
        if not options.dry_run:
            (REQUIREMENTS / f"{name}.txt").write_text(_output(image.export_command(options.uv)))
            subprocess.run(command, cwd=ROOT, check=True)
    return 0


def _output(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
