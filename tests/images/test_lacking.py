"""What images/lacking.py installs on a base, and what it leaves to the base."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from images.lacking import install_lacking, pins

# Distributions by name: version, and what they require.
INDEX = {
    "kfrec": ("0.1.0", ["kfp==2.13.0; extra == 'pipeline'", "tqdm>=4.66", "mlflow>=3; extra == 'tracking'"]),
    "kfp": ("2.13.0", ["protobuf>=4.21.1,<5", "click>=8", "docstring-parser", "colorama>=9; extra == 'all'"]),
    "protobuf": ("4.25.8", []),
    "click": ("8.1.8", []),
    "docstring-parser": ("0.16", ["tqdm>=4.67"]),
    "tqdm": ("4.67.1", []),
    "colorama": ("0.4", []),
}  # fmt: skip
PINNED = {name: f"{name}=={version}\n" for name, (version, _) in INDEX.items() if name != "kfrec"}


class Target:
    """A folder that pip installs into."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.calls: list[set[str]] = []

    def install(self, names: Iterable[str]) -> None:
        self.calls.append(set(names))
        for name in ("kfrec", *names):
            version, requires = INDEX[name]
            info = self._folder / f"{name}-{version}.dist-info"
            info.mkdir(exist_ok=True)
            lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requires)]
            (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))

    def installed(self) -> list[Distribution]:
        return [PathDistribution(info) for info in self._folder.iterdir()]


@pytest.mark.parametrize(
    ("base", "installed"),
    [
        ({}, set(PINNED)),
        # Good enough, though none is the locked one.
        (
            {"protobuf": "4.23.0", "click": "8.0.0", "tqdm": "4.68", "colorama": "0.1"},
            {"kfp", "docstring-parser"},
        ),
        ({"protobuf": "3.20.3", "click": "8.0.0", "colorama": "0.1"}, {"kfp", "docstring-parser", "tqdm", "protobuf"}),
        # Only what was installed for another's sake refuses this one.
        ({"kfp": "2.12.0", "tqdm": "4.66.0", "docstring-parser": "0.1"}, {"kfp", "protobuf", "click", "colorama"}),
    ],
)
def test_only_what_the_base_lacks_is_installed(base: Mapping[str, str], installed: set[str], tmp_path: Path) -> None:
    target = Target(tmp_path)
    assert install_lacking(PINNED, base, target.install, target.installed) == installed
    assert target.calls[-1] == installed


def test_a_base_that_has_everything_gets_kfrec(tmp_path: Path) -> None:
    base = {name: version for name, (version, _) in INDEX.items()}
    target = Target(tmp_path)
    assert install_lacking(PINNED, base, target.install, target.installed) == set()
    assert target.calls == [set()]


def test_an_exported_requirement_keeps_its_hashes_and_its_versions_for_other_pythons() -> None:
    old, other, new = (
        "a_b==1.0 ; python_version < '3.11' \\\n    --hash=sha256:1 \\\n    --hash=sha256:3\n",
        "c==2 \\\n    --hash=sha256:5\n",
        "a-b==1.1 ; python_version >= '3.11' \\\n    --hash=sha256:2\n",
    )
    assert pins(old + other + new.rstrip()) == {"a-b": old + new, "c": other}
