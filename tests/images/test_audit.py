"""Which records of the OSV schema affect a locked version."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from images import audit
from images.audit import findings_in, is_affected, locked, read_records


def record(name: str, package: str, **affected: Any) -> dict[str, Any]:
    entry = {"package": {"ecosystem": "PyPI", "name": package}, **affected}
    return {"id": name, "aliases": [f"CVE-{name}"], "affected": [entry]}


def between(*events: tuple[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: at} for kind, at in events]}]}


@pytest.mark.parametrize(
    ("affected", "expected"),
    [
        (between(("introduced", "0")), True),
        (between(("introduced", "0"), ("fixed", "2.0")), True),
        (between(("introduced", "0"), ("fixed", "1.10")), False),
        (between(("introduced", "0"), ("fixed", "1.9")), False),
        (between(("introduced", "1.10")), True),
        (between(("introduced", "1.11")), False),
        (between(("introduced", "0"), ("last_affected", "1.10")), True),
        (between(("introduced", "0"), ("last_affected", "1.9.9")), False),
        (between(("introduced", "0"), ("fixed", "1.2"), ("introduced", "1.8"), ("fixed", "1.11")), True),
        (between(("fixed", "1.11"), ("introduced", "1.8"), ("fixed", "1.2"), ("introduced", "0")), True),
        ({"versions": ["1.9", "1.10"]}, True),
        ({"versions": ["1.9"]}, False),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
    ],
)
def test_a_version_is_affected_by_ranges_and_lists(affected: dict[str, Any], expected: bool) -> None:
    assert is_affected("1.10", affected) is expected


def test_a_finding_is_known_if_the_page_names_it_or_an_alias() -> None:
    records = [
        record("A-1", "Some_Package", **between(("introduced", "0"), ("fixed", "9"))),
        record("A-10", "some.package", **between(("introduced", "0"))),
        record("A-3", "other", **between(("introduced", "0"))),
        record("A-4", "some-package", **between(("introduced", "0"))) | {"withdrawn": "2024-01-01T00:00:00Z"},
    ]
    found = list(findings_in({"some-package": {"1.10"}}, records, "| CVE-A-10 | does not apply |"))
    assert [(each.names[0], each.fixed, each.known) for each in found] == [("A-1", ("9",), False), ("A-10", (), True)]


def test_the_lock_file_has_every_package_of_a_registry() -> None:
    packages = locked(audit.LOCK.read_text())
    assert len(packages) > 200 and packages["tensorflow-cpu"] == {"2.21.0"} and "kfrec" not in packages


@pytest.mark.parametrize("packed", [False, True])
def test_a_new_finding_is_the_exit_status(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new = record("NEW-1", "horovod", **between(("introduced", "0"), ("fixed", "0.29")))
    place = tmp_path / "all.zip" if packed else tmp_path / "records"
    if packed:
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("NEW-1.json", json.dumps(new))
    else:
        place.mkdir()
        (place / "NEW-1.yaml").write_text(json.dumps(new))
    assert list(read_records(place)) == [new]
    monkeypatch.setattr("sys.argv", ["audit", str(place)])
    assert audit.main() == 1
    assert capsys.readouterr().out.splitlines()[0] == "horovod 0.28.1: NEW-1, CVE-NEW-1; fixed in 0.29"


def test_a_folder_without_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["audit", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        audit.main()
    assert left.value.code == 2 and "no OSV records" in capsys.readouterr().err


def test_the_page_on_security_names_what_is_published_of_nvtabular_and_distributed() -> None:
    records = [
        record("CVE-2025-33214", "nvtabular", **between(("introduced", "0"))),
        record("GHSA-c336-7962-wfj2", "distributed", **between(("introduced", "0"), ("fixed", "2026.1.0"))),
    ]
    found = list(findings_in(locked(audit.LOCK.read_text()), records, audit.KNOWN.read_text()))
    assert len(found) == 2 and all(each.known for each in found)


def test_nothing_that_shows_a_dashboard_of_dask_is_locked() -> None:
    assert not {"bokeh", "jupyter-server", "jupyter-server-proxy"} & set(locked(audit.LOCK.read_text()))
    scheduler = (audit.ROOT / "manifests" / "components" / "dask" / "scheduler.yaml").read_text()
    assert "dask_scheduler, --no-dashboard" in scheduler
