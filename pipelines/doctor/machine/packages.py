"""The packages of each step, by kfrec's extras. Only metadata is read; nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version

from pipelines.doctor.finding import Finding, missing, note, ok
from pipelines.doctor.machine.place import Machine

_ITSELF = "kfrec"
# Step to the extras of pyproject.toml that it imports when it runs locally; "" is the base requirements.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "pipeline": ("", "pipeline"),
    "find": ("tracking",),
    "download": (),
    "preprocess": ("preprocess",),
    "tfrecord": ("records",),
    "train": ("train", "tracking"),
    "evaluate": ("records", "tensorflow", "tracking"),
    "register": ("records", "tensorflow", "tracking"),
    "predict": ("records", "tensorflow", "tracking"),
}
# Extras that only some runs need.
OPTIONAL: Mapping[str, str] = {
    "s3": "s3:// and minio://",
    "kubernetes": "launcher=mpijob and kfrec doctor --cluster",
}


def check(machine: Machine) -> Iterator[Finding]:
    try:
        added = _by_extra(requires(_ITSELF) or [])
    except PackageNotFoundError:
        yield missing("kfrec itself is not installed, so what it needs is unknown", "make setup, or pip install .")
        return
    complete = True
    for step, extras in NEEDED.items():
        absent = _absent(added, extras)
        if absent:
            complete = False
            named = ", ".join(extra for extra in extras if extra and _absent(added, (extra,)))
            remedy = f"make setup, or install kfrec with the extra {named}" if named else "make setup, or pip install ."
            yield missing(f"{step} lacks {', '.join(absent)}", remedy)
    if complete:
        yield ok("those of every step are installed")
    for extra, use in OPTIONAL.items():
        if absent := _absent(added, (extra,)):
            yield note(f"{use} lack {', '.join(absent)}", f"install kfrec with the extra {extra}")


def _absent(added: Mapping[str, list[str]], extras: tuple[str, ...]) -> list[str]:
    """Packages of these extras that are not installed."""
    return sorted({name for extra in extras for name in added.get(extra, ()) if not _is_installed(name)})


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _by_extra(requirements: list[str]) -> dict[str, list[str]]:
    """Extra to its packages, including those of kfrec extras that it refers to."""
    direct: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for text in requirements:
        name = re.match(r"[\w.-]+", text)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", text)
        place = extra[1] if extra else ""
        if name is None:
            continue
        if name[0] == _ITSELF:
            inner = re.search(r"\[([^\]]+)\]", text)
            others.setdefault(place, []).extend(re.split(r"\s*,\s*", inner[1]) if inner else ())
        else:
            direct.setdefault(place, []).append(name[0])
    return {
        extra: direct.get(extra, []) + [name for other in others.get(extra, ()) for name in direct.get(other, ())]
        for extra in direct.keys() | others.keys()
    }
