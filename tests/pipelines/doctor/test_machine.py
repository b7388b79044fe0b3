"""``kfrec doctor`` on a machine that lacks something: the line that says so, and the exit status."""

from __future__ import annotations

import builtins
import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.errors import KfrecError
from pipelines.doctor import machine as checks
from pipelines.doctor.examination import MISSING, NOTE, OK, Check, Finding, examine
from pipelines.doctor.machine import Machine, compiler, disk, gpu, horovod, mpi, port, processor
from tests.pipelines.doctor.installation import doctor

Examine = Callable[[Machine], object]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine that a test may write to."""
    for folder in ("proc", "prefix/bin", "prefix/lib"):
        (tmp_path / folder).mkdir(parents=True)
    return Machine(tmp_path / "runs", prefix=tmp_path / "prefix", proc=tmp_path / "proc")


def found(check: Examine, machine: Machine) -> list[Finding]:
    return list(check(machine))  # type: ignore[call-overload]


def only(check: Examine, machine: Machine) -> tuple[str, str]:
    """State and text of the only line."""
    (finding,) = found(check, machine)
    return finding.state, f"{finding.message}; {finding.remedy}"


def test_this_machine_can_run_kfrec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = doctor(capsys, f"--workdir={tmp_path}")
    lacking = [line for line in told.lines if line[0] == MISSING and line[1] != "disk"]
    assert lacking == [], told.said
    assert ("ok", "0.28.1, with Gloo and MPI") in told.of("horovod")
    assert told.of("mpi")[0][1].startswith("Open MPI 4.1.8 at ")
    assert [subject for _, subject, _ in told.lines] == [
        "processor", "compiler", "horovod", "loopback", "mpi", "gpu", "disk", "port",
    ]  # fmt: skip


def test_a_missing_thing_is_counted_and_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    told = doctor(capsys, f"--workdir={tmp_path}/file")
    assert told.status == 1
    assert told.of("disk") == [(MISSING, f"{tmp_path}/file is a file; choose another --workdir")]
    assert told.said.endswith("\n1 missing: see the remedies above\n")


def test_nothing_heavy_is_imported() -> None:
    script = "import sys; from pipelines.cli import main; main(['doctor']); print(set(sys.argv[1:]) & set(sys.modules))"
    heavy = ["tensorflow", "horovod", "kfp", "mlflow", "kubernetes", "pandas", "numba"]
    done = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stdout


@pytest.mark.parametrize(
    ("text", "state"), [("flags\t\t: fpu avx avx2\n", OK), ("flags\t\t: fpu sse4_2\n", MISSING), ("", OK)]
)
def test_processor(machine: Machine, text: str, state: str) -> None:
    (machine.proc / "cpuinfo").write_text(text)
    assert only(processor, machine)[0] == state


def _without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    """As if these packages were not installed."""
    real = importlib.metadata.Distribution.from_name

    def from_name(name: str) -> importlib.metadata.Distribution:
        if name in absent:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", from_name)


@pytest.mark.parametrize(("built", "state"), [(True, NOTE), (False, MISSING)])
def test_no_compiler(machine: Machine, monkeypatch: pytest.MonkeyPatch, built: bool, state: str) -> None:
    monkeypatch.setenv("PATH", str(machine.prefix))
    _without(monkeypatch, *([] if built else ["horovod"]))
    assert only(compiler, machine)[0] == state


def test_horovod_is_not_installed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "horovod")
    assert only(horovod, machine) == (MISSING, "not installed; make setup, or install kfrec with the extra train")


@pytest.mark.parametrize(
    ("content", "built_for", "state", "words"),
    [
        (None, "2.21.0", MISSING, "built without TensorFlow; rebuild it"),
        (b"", "2.21.0", MISSING, "with neither Gloo nor MPI"),
        (b"..N7horovod6common13MPIControllerE..", "2.21.0", NOTE, "with MPI, without Gloo; several workers need"),
        (
            b"..N7horovod6common14GlooControllerE..",
            "2.21.0",
            NOTE,
            "with Gloo, without MPI: transport=mpi is not possible",
        ),
        (b"..N7horovod6common14GlooControllerE..", "2.20.0", MISSING, "built for TensorFlow 2.20.0 and not for 2.21.0"),
    ],
)
def test_builds_of_horovod(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    built_for: str,
    state: str,
    words: str,
) -> None:
    folder = machine.prefix / "horovod"
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"tensorflow": built_for}))
    if content is not None:
        (folder / "tensorflow" / "mpi_lib.cpython-311.so").write_bytes(content)
    there = type("There", (), {"locate_file": staticmethod(machine.prefix.joinpath)})
    monkeypatch.setattr(checks, "distribution", lambda name: there)
    assert (said := only(horovod, machine))[0] == state and words in said[1]


def _mpirun(machine: Machine, script: str) -> None:
    file = machine.prefix / "bin" / "mpirun"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_no_mpirun(machine: Machine) -> None:
    assert "transport=gloo works without it" in only(mpi, machine)[1]


def test_an_mpirun_that_does_not_work(machine: Machine) -> None:
    _mpirun(machine, "echo 'cannot open shared object file' >&2; exit 127")
    state, text = only(mpi, machine)
    assert state == NOTE and "(cannot open shared object file)" in text


@pytest.mark.parametrize(
    ("package", "seen", "driver", "words"),
    [
        ("tensorflow-cpu", "", 0, "none: tensorflow-cpu uses the CPU only; "),
        ("tensorflow-cpu", "", 2, "uses the CPU only, although NVIDIA's driver has 2"),
        ("tensorflow", "2", 2, "2 seen by tensorflow 2.21.0"),
        ("tensorflow", "0", 0, "none seen by TensorFlow"),
        ("tensorflow", "0", 1, "none seen by TensorFlow, although NVIDIA's driver has 1; check CUDA_VISIBLE_DEVICES"),
        ("tensorflow", "no number", 0, "none seen by TensorFlow"),
    ],
)
def test_gpus(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, package: str, seen: str, driver: int, words: str
) -> None:
    for number in range(driver):
        (machine.proc / "driver/nvidia/gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    monkeypatch.setattr(checks, "_tensorflow", lambda: (package, "2.21.0"))
    monkeypatch.setattr(checks, "_GPUS", f"print('noise'); print('{seen}')")
    assert words in only(gpu, machine)[1]


def test_a_full_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": checks._DISK - 1})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    state, text = only(disk, machine)
    assert state == MISSING and f"free at {machine.workdir.parent}; a run of the built-in data needs" in text


def test_a_link_that_leads_nowhere(machine: Machine) -> None:
    machine.workdir.symlink_to("none")
    with pytest.raises(KfrecError, match=r"runs: cannot be accessed .*; choose another --workdir"):
        found(disk, machine)


def test_a_folder_that_cannot_be_written_to(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert only(disk, machine)[0] == MISSING


_IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--net", "--uts", "sh", "-c"]
_HAS_NAMESPACES = bool(shutil.which("unshare")) and not subprocess.run([*_IN_A_NAMESPACE, "true"]).returncode
_LOOPBACK = "from pathlib import Path; from pipelines.doctor.machine import *; print(*loopback(Machine(Path())))"


@pytest.mark.skipif(not _HAS_NAMESPACES, reason="this user may not make network namespaces")
@pytest.mark.parametrize(
    ("commands", "state", "words"),
    [("ip link set lo up", OK, "reach each other"), ("true", NOTE, "remedy='ip link set lo up'")],
)
def test_the_loopback_interface_of_a_machine_without_a_network(commands: str, state: str, words: str) -> None:
    script = f"{commands}; exec '{sys.executable}' -c '{_LOOPBACK}'"
    done = subprocess.run([*_IN_A_NAMESPACE, script], capture_output=True, text=True, check=True)
    assert f"state='{state}'" in done.stdout and words in done.stdout


_RANKS = "from components.train.loop.ranks import connect, disconnect; print(connect().size); disconnect()"


@pytest.mark.slow
@pytest.mark.skipif(not _HAS_NAMESPACES, reason="this user may not make network namespaces")
@pytest.mark.parametrize("commands", ["ip link set lo up", "true"])
def test_two_workers_without_a_network_need_the_loopback_interface(tmp_path: Path, commands: str) -> None:
    (tmp_path / "sizes.py").write_text(_RANKS)
    imports = "from pathlib import Path; from components.train.launching.launch import LocalLauncher"
    code = f"LocalLauncher('gloo', module='sizes').run(2, [], Path({str(tmp_path / 'log')!r}))"
    script = f'{commands}; hostname kfrec.invalid; exec {sys.executable} -c "{imports}; {code}"'
    done = subprocess.run(
        [*_IN_A_NAMESPACE, script], env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    if commands == "true":
        assert done.stderr.splitlines()[-1].endswith("cannot have several workers; ip link set lo up")
    else:
        assert (tmp_path / "log").read_text().count("] 2\n") == 2, done.stderr


def test_a_port_in_use_names_another(machine: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = taken.getsockname()[1]
        state, text = only(port, Machine(machine.workdir, port=used))
    assert state == NOTE and re.fullmatch(rf"{used} is in use; kfrec ui --port \d+", text)


def _broken(place: object) -> list[Finding]:
    raise ValueError("of all things")


def test_a_check_that_fails_is_a_line_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [Finding(OK, "fine")]
    failing: list[Check[object]] = [Check("broken", _broken), Check("fine", lambda _: fine)]
    assert examine(failing, None, "kfrec run") == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "missing  broken         this check failed (ValueError: of all things); see kfrec --debug doctor",
        "ok       fine           fine",
    ]
    with pytest.raises(ValueError, match="of all things"):
        examine(failing, None, "kfrec run", debug=True)


def test_a_check_without_an_end_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    import threading

    forever = threading.Event()
    failing: list[Check[object]] = [Check("slow", lambda _: [Finding(OK, str(forever.wait()))])]
    assert examine(failing, None, "kfrec run", longest=0.2) == 1
    assert "no answer within 0 s" in capsys.readouterr().out
    forever.set()


def test_a_package_that_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    failing: list[Check[object]] = [Check("some", lambda _: builtins.__import__("kfrec_is_lacking_this"))]
    assert examine(failing, None, "kfrec run") == 1
    assert "the package kfrec_is_lacking_this is not installed; install kfrec" in capsys.readouterr().out
