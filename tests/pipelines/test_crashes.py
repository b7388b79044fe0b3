"""What ``kfrec run`` says when a step ends by an exception or a signal: the steps are processes, as users have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipelines.conftest import Run
from tests.pipelines.installed import edit, installed

_GIVEN = ("epochs=1", "global_batch_size=200", "synthetic_trips=400", "tfrecord_workers=1", "bootstrap_samples=100")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with installed("regression", tmp_path / "site", monkeypatch) as folder:
        yield folder


@pytest.fixture
def kfrec_run(with_processes: Callable[..., Run], tmp_path: Path) -> Callable[..., str]:
    """Runs the pipeline of the package, which fails, and returns the one line that says why."""

    def run(*words: str) -> str:
        given = [word for value in _GIVEN for word in ("--set", value)]
        done = with_processes(tmp_path / "runs", "--model", "trip_time", *given, *words)
        assert done.status == 2 and "Traceback" not in done.err, done.err[-2000:]
        (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
        assert done.err.splitlines()[-1] == line
        return line

    return run


def log_of(workdir: Path) -> Path:
    (log,) = workdir.glob("*/steps.log")
    return log


_DEEP = """
    def deep(n):
        if n:
            return deep(n - 1)
        import json
        return json.loads("{")
    try:
        deep(60)
    except ValueError as error:
        raise RuntimeError("the trips cannot be made") from error
"""


def test_an_exception_of_an_extension_is_its_type_message_and_place(
    kfrec_run: Callable[..., str], package: Path, tmp_path: Path
) -> None:
    edit(package / "dataset.py", "    random = np.random.default_rng(12345)\n", _DEEP)
    line = kfrec_run()
    log = log_of(tmp_path / "runs")
    assert line.startswith("error: download: RuntimeError: the trips cannot be made, at ")
    assert f"{package / 'dataset.py'}:" in line and " in _generate; raised from JSONDecodeError: Expecting" in line
    assert f"; its traceback is in {log}; resume with: kfrec run --resume {log.parent}" in line
    assert "memory" not in line
    assert log.read_text().count(" in deep\n") >= 3 and "The above exception was the direct cause" in log.read_text()


_NOISY = """
    import atexit, sys
    def late():
        print("W tensorflow/core: a warning\\n" * 50, file=sys.stderr)
        print("Traceback (most recent call last):\\n  File 'x'\\nOSError: of a library", file=sys.stderr, flush=True)
    atexit.register(late)
    raise ValueError
"""


def test_an_exception_without_message_is_not_hidden_by_what_follows_it(
    kfrec_run: Callable[..., str], package: Path, tmp_path: Path
) -> None:
    edit(
        package / "dataset.py",
        "    paths = TRIPS.files(job.raw)",
        f"{_NOISY}    paths = TRIPS.files(job.raw)",
    )
    line = kfrec_run()
    assert "OSError: of a library" in log_of(tmp_path / "runs").read_text()
    assert line.startswith(f"error: preprocess: ValueError, at {package / 'dataset.py'}:") and "_preprocess" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process was killed (SIGKILL), probably because the memory"),
        ("sys.exit('enough')", "SystemExit: enough, at "),
    ],
)
def test_a_process_that_ends_otherwise_is_told_as_it_ended(
    ends: str, told: str, kfrec_run: Callable[..., str], package: Path
) -> None:
    edit(package / "dataset.py", "    lines = []\n", f"    lines = []\n    import os, signal, sys\n    {ends}\n")
    line = kfrec_run()
    assert line.startswith(f"error: download: {told}")
    assert ("memory" in line) == ("SIGKILL" in ends)


_IN_A_WORKER = """
    import dask
    from components.workflows.workers import dask_workers, in_order
    with dask_workers(2, "", 4) as workers:
        in_order(workers, [dask.delayed(_part)(number) for number in range(4)])
"""
_PART = """
def _part(number):
    return {0: "first"}[number + 7]


def _preprocess("""


@pytest.mark.slow
def test_an_exception_in_a_dask_worker_names_its_line_there(
    kfrec_run: Callable[..., str], package: Path, tmp_path: Path
) -> None:
    edit(
        package / "dataset.py",
        "    paths = TRIPS.files(job.raw)",
        f"{_IN_A_WORKER}    paths = TRIPS.files(job.raw)",
    )
    edit(package / "dataset.py", "\ndef _preprocess(", _PART)
    line = kfrec_run()
    assert line.startswith("error: preprocess: KeyError: ")
    assert f", at {package / 'dataset.py'}:" in line and " in _part; " in line


_LAST_RANK = """
        super().__init__()
        import os
        if os.environ.get("HOROVOD_RANK", "1") == "1":
            raise TypeError("no such width")
"""


@pytest.mark.slow
def test_an_exception_in_a_rank_names_its_line_there(kfrec_run: Callable[..., str], package: Path) -> None:
    edit(package / "model.py", "        super().__init__()\n", _LAST_RANK)
    line = kfrec_run("--workers", "2")
    assert line.startswith(f"error: train: rank 1: TypeError: no such width, at {package / 'model.py'}:")
    assert " in __init__; the output of the workers is in " in line
    (log,) = [word for word in line.split() if word.endswith(".log;")]
    assert "TypeError: no such width" in Path(log.rstrip(";")).read_text()
