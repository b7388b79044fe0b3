import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import KfrecError, WorkerCrashed
from components.steps.catalog import STEPS
from components.steps.training_parameters import require_divisible
from components.train.launching.launch import LocalLauncher, run_processes, worker_arguments
from components.train.launching.transports import mpi_environment
from tests.train.dataset import write_dataset
from tests.train.ranks import LISTENING
from tests.waiting import LONGEST, wait_for

WORKER = ["/env/bin/python", "-m", "components.train.worker", "--lr=0.5"]


def launcher(kind: str) -> LocalLauncher:
    return LocalLauncher(kind, prefix="/env", python="/env/bin/python")


@pytest.mark.parametrize("kind", ["gloo", "mpi"])
def test_one_worker_needs_no_launcher(kind: str) -> None:
    assert launcher(kind).command(1, ["--lr=0.5"]) == WORKER


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_each_of_several_workers_over_gloo_is_a_child_with_its_rank(transport: str) -> None:
    own = launcher(transport)
    assert own.command(3, ["--lr=0.5"]) == WORKER
    with own.environments(3) as environments:
        assert [given["HOROVOD_RANK"] for given in environments] == ["0", "1", "2"]
        assert {given["HOROVOD_SIZE"] for given in environments} == {"3"}


@pytest.mark.parametrize("transport", ["gloo", "mpi"])
def test_no_password_is_in_the_command_line_of_a_rank(
    transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key-of-the-test")
    (tmp_path / "looks.py").write_text(_LOOKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "worker.log"
    LocalLauncher(transport, module="looks").run(2, ["a-word-of-the-test"], log)
    seen = log.read_text()
    assert seen.count("a-word-of-the-test") >= 2 and "a-key-of-the-test" not in seen


# Prints the command lines of all processes.
_LOOKS = """
from pathlib import Path
for path in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        print(path.read_bytes().replace(b"\\0", b" ").decode(errors="replace"))
    except OSError:
        pass
"""


@pytest.mark.slow
def test_workers_over_gloo_listen_on_this_machine_alone(two_ranks: Path) -> None:
    launcher, rank = json.loads((two_ranks / LISTENING).read_text())
    assert launcher == ["127.0.0.1"] and set(rank) <= {"127.0.0.1"}


def test_a_worker_imports_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("yaml", "numpy", "tqdm", "components"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    own = LocalLauncher("gloo", module="components.errors")
    assert run_processes(own.command(1, []), [os.environ | own.environment()], lambda *line: None) == 0
    assert not (tmp_path / "ran").exists()


def test_several_workers_run_under_mpirun_with_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalLauncher, "environment", lambda self: {"A": "1", "B": "2"})
    flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]
    start = ["/env/bin/mpirun", *flags, "-np", "2", "-x", "A", "-x", "B"]
    assert launcher("mpi").command(2, ["--lr=0.5"]) == start + WORKER


def test_workers_are_told_what_differs_from_the_defaults() -> None:
    parameters = STEPS["train"].of(lr=0.1, amp=True, stage_two_mlp_dims=(8, 4), workers=2, transport="mpi")
    assert worker_arguments(parameters, "/data", "/out", "/ckpt") == [
        "--dataset_dir=/data",
        "--results_dir=/out",
        "--save_checkpoint_path=/ckpt",
        "--lr=0.1",
        "--stage_two_mlp_dims=8,4",
        "--amp=true",
    ]


def test_mpi_is_found_in_the_environment_it_was_installed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mpi_environment(str(tmp_path)) == {}
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so.40").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", "/other")
    expected = {"OPAL_PREFIX": str(tmp_path), "LD_LIBRARY_PATH": f"{tmp_path}/lib:/other"}
    for shell, further in (("/usr/bin/ssh", {}), (None, {"OMPI_MCA_plm_rsh_agent": "sh"})):
        monkeypatch.setattr("shutil.which", lambda name, found=shell: found)
        assert mpi_environment(str(tmp_path)) == expected | further


@pytest.mark.parametrize(("batch", "nearest"), [(10, "9 or 12"), (2, "3")])
def test_a_batch_the_workers_cannot_share_names_the_nearest_that_they_can(batch: int, nearest: str) -> None:
    with pytest.raises(KfrecError) as raised:
        require_divisible(batch, 3)
    assert str(raised.value) == (f"global_batch_size {batch} cannot be divided evenly over 3 workers; use {nearest}")


def test_every_line_of_a_child_is_handed_over() -> None:
    seen: list[tuple[int, str, str]] = []
    code = "import sys; print('one'); print('two', file=sys.stderr); sys.exit(7)"
    status = run_processes([sys.executable, "-c", code], [os.environ], lambda *line: seen.append(line))
    assert status == 7
    assert sorted(seen) == [(0, "stderr", "two"), (0, "stdout", "one")]


def test_a_child_that_fails_stops_the_others() -> None:
    code = "import os, sys, time; os.environ['FAILS'] == '1' and sys.exit(7); time.sleep(3600)"
    environments = [os.environ | {"FAILS": fails} for fails in ("0", "1", "0")]
    assert run_processes([sys.executable, "-c", code], environments, lambda *line: None) == 7


def test_a_terminated_step_takes_its_workers_with_it(tmp_path: Path) -> None:
    grandchild = "import time, os; print(os.getpid(), flush=True); time.sleep(3600)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    step = (
        "import os, sys\nfrom components.train.launching.launch import run_processes\n"
        f"run_processes([sys.executable, '-c', {child!r}], [os.environ], lambda *line: print(line[-1], flush=True))"
    )
    process = subprocess.Popen([sys.executable, "-c", step], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONGEST) == 128 + signal.SIGTERM
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


# The second of two ranks, or the only one, ends as the kernel would end it.
_KILLED = """
import os, signal, time
if os.environ.get("HOROVOD_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "1")) == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(3600)
"""


@pytest.mark.parametrize(("workers", "transport"), [(1, "auto"), (2, "gloo"), (2, "mpi")])
def test_a_worker_that_the_kernel_kills_for_memory_is_one_line(
    workers: int, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed.py").write_text(_KILLED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(WorkerCrashed) as raised:
        LocalLauncher(transport, module="killed").run(workers, [], tmp_path / "worker.log")
    assert re.fullmatch(
        r"a worker was killed \(SIGKILL\), probably because the memory .*more memory.*", str(raised.value)
    )


_RAISES = """
import sys
from components.train import worker
def broken(dataset, parameters, ranks):
    raise TypeError("no such width")
worker._run = broken
sys.exit(worker.main())
"""


@pytest.mark.slow
def test_an_exception_in_the_only_worker_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raises.py").write_text(_RAISES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "worker.log"
    with pytest.raises(WorkerCrashed, match=rf"^rank 0: TypeError: no such width, at .*the workers is in {log}"):
        LocalLauncher("auto", module="raises").run(1, ["--dataset_dir=data", "--results_dir=out"], log)
    assert "TypeError: no such width" in log.read_text()


# The first of two ranks hangs while it exports the model alone, and the other one has nothing left to do.
_HANGS = """
import os, signal
from components.train.loop.ranks import connect, disconnect
ranks = connect()
if ranks.rank == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
ranks.end()
disconnect()
"""


@pytest.mark.slow
def test_a_rank_that_hangs_at_the_end_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hangs.py").write_text(_HANGS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "10")
    with pytest.raises(WorkerCrashed, match=r"rank 1: UnknownError: .*Horovod has been shut down"):
        LocalLauncher("gloo", module="hangs").run(2, [], tmp_path / "worker.log")


# The second of two ranks hangs at its first step: over MPI nothing but the watchdog ends the other one.
_STALLS = """
import os, signal, sys
from components.train import worker
from components.train.loop.training_step import TrainingStep
steps = TrainingStep.steps
def hangs(self, batches, positions=None):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    return steps(self, batches, positions)
TrainingStep.steps = hangs
sys.exit(worker.main())
"""


@pytest.mark.slow
def test_a_step_that_waits_for_a_rank_that_hangs_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stalls.py").write_text(_STALLS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    data, out = write_dataset(tmp_path / "tfrecord", train=40), tmp_path / "out"
    out.mkdir()
    words = [f"--dataset_dir={data}", f"--results_dir={out}", "--model_type=din", "--global_batch_size=20"]
    with pytest.raises(WorkerCrashed, match=r"rank 0: a step takes longer than 2 s, .*; raise stall_seconds"):
        LocalLauncher("mpi", module="stalls").run(2, [*words, "--stall_seconds=2"], tmp_path / "worker.log")
