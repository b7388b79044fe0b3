"""``kfrec doctor`` on a machine that lacks something: the line that says so, and the exit status."""

from __future__ import annotations

import builtins
import importlib.metadata
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from components.errors import KfrecError
from components.steps.catalog import STEPS
from pipelines.doctor.examination import examine
from pipelines.doctor.finding import MISSING, NOTE, OK, Check, Finding
from pipelines.doctor.machine import compiler, gpu, horovod, interpreter, mpi, packages, port, processor, space
from pipelines.doctor.machine.place import Machine
from pipelines.doctor.machine.tensorflow import Installed
from tests.pipelines.doctor.installation import doctor

ROOT = Path(__file__).parents[3]
Examine = Callable[[Machine], object]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine that a test may write to."""
    for folder in ("proc", "group", "prefix/bin", "prefix/lib"):
        (tmp_path / folder).mkdir(parents=True)
    return Machine(
        tmp_path / "runs", prefix=tmp_path / "prefix", proc=tmp_path / "proc", control_group=tmp_path / "group"
    )


def found(check: Examine, machine: Machine) -> list[Finding]:
    return list(check(machine))  # type: ignore[call-overload]


def only(check: Examine, machine: Machine) -> tuple[str, str]:
    """State and text of the only line."""
    (finding,) = found(check, machine)
    return finding.state, f"{finding.found}; {finding.remedy}"


def test_this_machine_can_run_kfrec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = doctor(capsys, f"--workdir={tmp_path}")
    lacking = [line for line in told.lines if line[0] == MISSING and line[1] not in ("disk", "memory")]
    assert lacking == [], told.said
    assert ("ok", "0.28.1, with Gloo and MPI") in told.of("horovod")
    assert told.of("mpi")[0][1].startswith("Open MPI 4.1.8 at ")
    assert [subject for _, subject, _ in told.lines] == [
        "python", "processor", "packages", "compiler", "horovod", "mpi", "gpu", "disk", "memory", "port",
    ]  # fmt: skip


def test_a_missing_thing_is_counted_and_ends_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    (tmp_path / "file").touch()
    told = doctor(capsys, f"--workdir={tmp_path}/file")
    assert told.status == 1
    assert told.of("python")[0][0] == MISSING
    assert told.of("disk") == [(MISSING, f"{tmp_path}/file is a file; choose another --workdir")]
    assert told.said.endswith("missing: see the remedies above\n")


def test_nothing_heavy_is_imported() -> None:
    script = "import sys; from pipelines.cli import main; main(['doctor']); print(set(sys.argv[1:]) & set(sys.modules))"
    heavy = ["tensorflow", "horovod", "kfp", "mlflow", "kubernetes", "pandas", "numba"]
    done = subprocess.run([sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stdout


def test_the_accepted_versions_of_python_are_those_of_the_package() -> None:
    accepted = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert accepted is not None
    assert ((3, int(accepted[1])), (3, int(accepted[2]))) == (interpreter.FIRST, interpreter.BEYOND)


def test_extras_by_step_are_those_of_the_images() -> None:
    images = yaml.safe_load((ROOT / "images/images.yaml").read_text())
    assert set(packages.NEEDED) == {"pipeline", *STEPS}
    for image in images.values():
        for step in image["steps"]:
            # Where MPIJobs train, the step needs no Horovod.
            needed = {extra for extra in packages.NEEDED[step] if extra} - {"train"}
            assert needed <= set(image["extras"]), step
    assert set(packages.NEEDED["train"]) - {"tracking"} <= set(images["train"]["extras"])


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        ("model name\t: A\nflags\t\t: fpu avx avx2\n", OK, "A, "),
        ("model name\t: A\nflags\t\t: fpu avx\n", NOTE, "without AVX2: training is slower"),
        ("model name\t: A\nflags\t\t: fpu sse4_2\n", MISSING, "without AVX; TensorFlow needs it"),
        ("", OK, "x86_64"),
    ],
)
def test_processor(machine: Machine, text: str, state: str, words: str) -> None:
    (machine.proc / "cpuinfo").write_text(text)
    assert (said := only(processor.check, machine))[0] == state and words in said[1]


def test_another_kind_of_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert only(processor.check, machine)[1].startswith("Linux on aarch64; Linux on x86-64 is needed")


def _without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    """As if these packages were not installed."""
    real = importlib.metadata.Distribution.from_name

    def from_name(name: str) -> importlib.metadata.Distribution:
        if name in absent:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", from_name)


def test_packages_are_named_by_the_step_and_the_extra(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "orjson", "numba", "mlflow", "boto3", "requests")
    lines = [(finding.state, f"{finding.found}; {finding.remedy}") for finding in found(packages.check, machine)]
    assert (MISSING, "pipeline lacks requests; make setup, or pip install .") in lines
    assert (MISSING, "preprocess lacks numba, orjson; make setup, or install kfrec with the extra preprocess") in lines
    assert (MISSING, "train lacks mlflow, numba; make setup, or install kfrec with the extra train, tracking") in lines
    assert (NOTE, "s3:// and minio:// lack boto3; install kfrec with the extra s3") in lines
    assert OK not in {state for state, _ in lines}


def test_kfrec_itself_is_not_installed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "kfrec")
    assert only(packages.check, machine)[0] == MISSING


@pytest.mark.parametrize(("built", "state"), [(True, NOTE), (False, MISSING)])
def test_no_compiler(machine: Machine, monkeypatch: pytest.MonkeyPatch, built: bool, state: str) -> None:
    monkeypatch.setenv("PATH", str(machine.prefix))
    _without(monkeypatch, *([] if built else ["horovod"]))
    assert only(compiler.check, machine)[0] == state


def test_horovod_is_not_installed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "horovod")
    assert only(horovod.check, machine) == (MISSING, "not installed; make setup, or install kfrec with the extra train")


@pytest.mark.parametrize(
    ("content", "built_for", "state", "words"),
    [
        (None, "2.15.1", MISSING, "built without TensorFlow; rebuild it"),
        (b"", "2.15.1", MISSING, "with neither Gloo nor MPI"),
        (b"..N7horovod6common13MPIControllerE..", "2.15.1", NOTE, "with MPI, without Gloo; several workers need"),
        (
            b"..N7horovod6common14GlooControllerE..",
            "2.15.1",
            NOTE,
            "with Gloo, without MPI: transport=mpi is not possible",
        ),
        (b"..N7horovod6common14GlooControllerE..", "2.14.0", MISSING, "built for TensorFlow 2.14.0 and not for 2.15.1"),
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
    monkeypatch.setattr(horovod, "distribution", lambda name: there)
    assert (said := only(horovod.check, machine))[0] == state and words in said[1]


def _mpirun(machine: Machine, script: str) -> None:
    file = machine.prefix / "bin" / "mpirun"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_no_mpirun(machine: Machine) -> None:
    assert "transport=gloo works without it" in only(mpi.check, machine)[1]


def test_an_mpirun_that_does_not_work(machine: Machine) -> None:
    _mpirun(machine, "echo 'cannot open shared object file' >&2; exit 127")
    state, text = only(mpi.check, machine)
    assert state == NOTE and "(cannot open shared object file)" in text


def test_an_opal_prefix_of_another_mpi(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _mpirun(machine, 'echo "mpirun (Open MPI) 4.1.8"; test "$OPAL_PREFIX" = "' + str(machine.prefix) + '"')
    (machine.prefix / "lib" / "libmpi.so.40").touch()
    monkeypatch.setenv("OPAL_PREFIX", "/opt/other")
    state, text = only(mpi.check, machine)
    assert (state, text.partition("but ")[2]) == (
        NOTE,
        "OPAL_PREFIX is /opt/other, of another Open MPI; unset OPAL_PREFIX",
    )


@pytest.mark.parametrize(
    ("package", "seen", "driver", "words"),
    [
        ("tensorflow-cpu", "", 0, "none: tensorflow-cpu uses the CPU only; "),
        ("tensorflow-cpu", "", 2, "uses the CPU only, although NVIDIA's driver has 2"),
        ("tensorflow", "2", 2, "2 seen by tensorflow 2.15.1"),
        ("tensorflow", "0", 0, "none: training uses the CPU"),
        ("tensorflow", "0", 1, "none seen by TensorFlow, although NVIDIA's driver has 1; check CUDA_VISIBLE_DEVICES"),
        ("tensorflow", "no number", 0, "none: training uses the CPU"),
    ],
)
def test_gpus(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, package: str, seen: str, driver: int, words: str
) -> None:
    for number in range(driver):
        (machine.proc / "driver/nvidia/gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    monkeypatch.setattr(gpu, "installed", lambda: Installed(package, "2.15.1"))
    monkeypatch.setattr(gpu, "_QUESTION", f"print('noise'); print('{seen}')")
    assert words in only(gpu.check, machine)[1]


def test_a_full_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": space.DISK - 1})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    state, text = only(space.disk, machine)
    assert state == MISSING and f"free at {machine.workdir.parent}; a run of the built-in data needs" in text


def test_a_link_that_leads_nowhere(machine: Machine) -> None:
    machine.workdir.symlink_to("none")
    with pytest.raises(KfrecError, match=r"runs: cannot be accessed .*; choose another --workdir"):
        found(space.disk, machine)


def test_a_folder_that_cannot_be_written_to(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert only(space.disk, machine)[0] == MISSING


@pytest.mark.parametrize(
    ("available", "limit", "state"),
    [
        (8 << 20, "max", OK),
        (8 << 20, "", OK),
        (1 << 20, "max", MISSING),
        (8 << 20, str(1 << 30), MISSING),
        (0, "", NOTE),
    ],
)
def test_memory(machine: Machine, available: int, limit: str, state: str) -> None:
    if available:
        (machine.proc / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available} kB\n")
    if limit:
        (machine.control_group / "memory.max").write_text(f"{limit}\n")
        (machine.control_group / "memory.current").write_text("1000\n")
    assert only(space.memory, machine)[0] == state


def test_a_port_in_use_names_another(machine: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = taken.getsockname()[1]
        state, text = only(port.check, Machine(machine.workdir, port=used))
    assert state == NOTE and re.fullmatch(rf"{used} is in use; kfrec ui --port \d+", text)


def _broken(place: object) -> list[Finding]:
    raise ValueError("of all things")


def test_a_check_that_fails_is_a_line_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [Finding(OK, "fine")]
    checks: list[Check[object]] = [Check("broken", _broken), Check("fine", lambda _: fine)]
    assert examine(checks, None) == 1
    assert capsys.readouterr().out.splitlines() == [
        "missing  broken         this check failed (ValueError: of all things); see kfrec --debug doctor",
        "ok       fine           fine",
    ]
    with pytest.raises(ValueError, match="of all things"):
        examine(checks, None, debug=True)


def test_a_check_without_an_end_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    import threading

    forever = threading.Event()
    checks: list[Check[object]] = [Check("slow", lambda _: [Finding(OK, str(forever.wait()))])]
    assert examine(checks, None, longest=0.2) == 1
    assert "no answer within 0 s" in capsys.readouterr().out
    forever.set()


def test_a_package_that_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    checks: list[Check[object]] = [Check("some", lambda _: builtins.__import__("kfrec_is_lacking_this"))]
    assert examine(checks, None) == 1
    assert "the package kfrec_is_lacking_this is not installed; install kfrec" in capsys.readouterr().out
