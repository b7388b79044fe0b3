"""Holds uv.lock against published vulnerabilities: ``python -m images.audit ADVISORIES``.

ADVISORIES are records of the OSV schema (https://ossf.github.io/osv-schema): a folder of JSON or YAML files such as a
clone of github.com/pypa/advisory-database, or the archive that OSV publishes,
https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip. No network is needed.

A finding whose identifier, or one of its aliases, stands in docs/security.md is known: the page says why it does not
apply. The exit status is 1 if there is another one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from components.settings_file import plain_yaml

ROOT = Path(__file__).parents[1]
LOCK, KNOWN = ROOT / "uv.lock", ROOT / "docs" / "security.md"
_EVENTS = ("introduced", "fixed", "last_affected")


class Finding(NamedTuple):
    """A vulnerability of a locked version.

    Attributes:
        package: name and version.
        names: the record's identifier and its aliases.
        fixed: versions that have the fix, if any.
        known: whether the page on security names it.
    """

    package: str
    names: tuple[str, ...]
    fixed: tuple[str, ...]
    known: bool


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m images.audit", description="Find vulnerabilities in uv.lock.")
    parser.add_argument("advisories", type=Path, metavar="ADVISORIES", help="a folder or archive of OSV records")
    options = parser.parse_args()
    try:
        records = list(read_records(options.advisories))
    except (OSError, ValueError, yaml.YAMLError, zipfile.BadZipFile) as error:
        parser.error(f"{options.advisories}: {' '.join(str(error).split())}")
    if not records:
        parser.error(f"{options.advisories}: no OSV records (.json, .yaml) in it")
    packages = locked(LOCK.read_text())
    findings = sorted(findings_in(packages, records, KNOWN.read_text()))
    for package, names, fixed, known in findings:
        remedy = f"fixed in {', '.join(fixed)}" if fixed else "no fix"
        print(f"{package}: {', '.join(names)}; {remedy}{'; in docs/security.md' if known else ''}")
    new = [finding for finding in findings if not finding.known]
    print(f"{len(packages)} packages, {len(records)} records: {len(findings)} findings, {len(new)} of them not known")
    return 1 if new else 0


def locked(text: str) -> dict[str, set[str]]:
    """The versions of each package of a lock file from a registry."""
    found: dict[str, set[str]] = {}
    for package in tomllib.loads(text)["package"]:
        if "registry" in package["source"]:
            found.setdefault(canonicalize_name(package["name"]), set()).add(package["version"])
    return found


def read_records(place: Path) -> Iterator[dict[str, Any]]:
    """The OSV records of a folder or archive."""
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.suffix == ".json":
                yield json.loads(path.read_text())
            elif path.suffix in (".yaml", ".yml"):
                yield plain_yaml(path.read_text())
        return
    with zipfile.ZipFile(place) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def findings_in(
    packages: Mapping[str, Iterable[str]], records: Iterable[Mapping[str, Any]], known: str
) -> Iterator[Finding]:
    """The records that affect a locked version.

    Args:
        packages: versions by name.
        records: of the OSV schema.
        known: text that names the known ones.
    """
    for record in records:
        if not isinstance(record, Mapping) or "withdrawn" in record:
            continue
        names = (record["id"], *sorted(record.get("aliases") or ()))
        stands = any(re.search(rf"\b{re.escape(name)}\b", known) for name in names)
        for affected in record.get("affected") or ():
            package = affected.get("package", {})
            if package.get("ecosystem") != "PyPI":
                continue
            for version in packages.get(canonicalize_name(package["name"]), ()):
                if is_affected(version, affected):
                    yield Finding(f"{package['name']} {version}", names, fixes(affected), stands)


def is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Whether an entry lists a version, or has it in a range of versions."""
    if version in (affected.get("versions") or ()):
        return True
    return any(
        _is_within(Version(version), events["events"])
        for events in affected.get("ranges") or ()
        if events["type"] == "ECOSYSTEM"
    )


def fixes(affected: Mapping[str, Any]) -> tuple[str, ...]:
    """The versions of an entry that have the fix."""
    ranges = [each for each in affected.get("ranges") or () if each["type"] == "ECOSYSTEM"]
    return tuple(event["fixed"] for each in ranges for event in each["events"] if "fixed" in event)


def _is_within(version: Version, events: Iterable[Mapping[str, str]]) -> bool:
    """Whether the last event up to a version is an introduction."""
    within = False
    for at, kind in sorted(_ordered(events)):
        if kind == _EVENTS.index("last_affected"):
            within = within and version <= at
        elif version >= at:
            within = kind == _EVENTS.index("introduced")
    return within


def _ordered(events: Iterable[Mapping[str, str]]) -> Iterator[tuple[Version, int]]:
    for event in events:
        for index, kind in enumerate(_EVENTS):
            if kind in event:
                try:
                    yield Version(event[kind]), index
                except InvalidVersion:
                    continue


if __name__ == "__main__":
    sys.exit(main())
