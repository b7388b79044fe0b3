"""Training on data in object storage: stages records on the node's disk, uploads results, resumes after a restart.

A worker only reads and writes local files. If --dataset_dir is a URI, one rank per node fetches the files that the
node's ranks read; if results_dir is a URI, the first rank uploads every checkpoint during training and the complete
artifact at the end. When the same command runs again, it finds the artifact and exits, or resumes from the newest
checkpoint of the same run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.artifacts import Artifact, publishing
from components.artifacts.remote import (
    begin_remote,
    fetch_artifact,
    open_remote,
    publish_remote,
    read_remote,
    require_output_prefix,
)
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.private import private_folder
from components.records.framing import index_path
from components.steps.catalog import WorkerParameters
from components.steps.recorded import recorded
from components.storage import below, is_uri
from components.train.loop.data import samples_of
from components.train.loop.listing import LIST
from components.train.loop.ranks import Ranks, on_first, together
from components.train.loop.shards import is_part
from components.train.loop.uploader import LOG, CheckpointUploader, fetch_checkpoint, send_parts
from components.train.results import CHECKPOINT, trained_rows
from components.training_log import TRAINING

STEP = "train"
# Input and output locations do not affect a run's result.
_LOCATIONS = ("results_dir", "stage_dir", "save_checkpoint_path", "load_checkpoint_path")


@dataclass(frozen=True)
class Stage:
    """The local folders of a worker.

    Attributes:
        checkpoint_saved: see ``components.train.loop.checkpoint.Checkpoints``.
    """

    data: Path
    parameters: WorkerParameters
    checkpoint_saved: Callable[[str, str], None] = lambda prefix, best: None
    is_finished: bool = False


@contextmanager
def staged(dataset: str, parameters: WorkerParameters, ranks: Ranks) -> Iterator[Stage]:
    """Yields local folders for a run; if the block succeeds, uploads the results to results_dir.

    Args:
        dataset: folder or URI of the records.
        parameters: of the run; results_dir and load_checkpoint_path may be URIs.

    Raises:
        KfrecError: the data cannot be fetched, the results cannot be written, or the disk is too small.
    """
    if not parameters.stage_dir:
        parameters = dataclasses.replace(parameters, stage_dir=str(private_folder("stage")))
    stage = Path(parameters.stage_dir)
    data = _stage_data(dataset, stage, parameters, ranks) if is_uri(dataset) else Path(dataset)
    if is_uri(load := parameters.load_checkpoint_path):
        local = stage / f"load-{_digest(load)}"
        node = _node(ranks)
        together(ranks, lambda: fetch_checkpoint(load, local) if ranks.rank == node[0] else None)
        parameters = dataclasses.replace(parameters, load_checkpoint_path=str(local))
    if not is_uri(parameters.results_dir):
        yield Stage(data, parameters)
    elif parameters.mode != "train" or parameters.benchmark:
        # Benchmarks and inference only print and log; they produce no model.
        yield Stage(data, dataclasses.replace(parameters, results_dir=str(stage / "results")))
    else:
        with _remote_results(dataset, data, parameters, ranks) as results:
            yield results


@contextmanager
def _remote_results(dataset: str, data: Path, parameters: WorkerParameters, ranks: Ranks) -> Iterator[Stage]:
    uri = parameters.results_dir.rstrip("/")
    source = together(ranks, lambda: open_remote(dataset))
    comparable = {name: value for name, value in recorded(parameters).items() if name not in _LOCATIONS}
    if on_first(ranks, lambda: _is_there(uri, source, comparable)):
        if ranks.rank == 0:
            print(f"{uri} holds the results of this run already", flush=True)
        yield Stage(data, parameters, is_finished=True)
        return
    on_first(ranks, lambda: _claim(uri, dataset))
    folder = Path(parameters.stage_dir) / f"results-{_digest(uri)}"
    work, checkpoints = folder / "work", folder / CHECKPOINT
    log = work / parameters.log_filename
    stored = below(uri, CHECKPOINT)
    resumed = on_first(ranks, lambda: _resume(stored, folder, checkpoints, log))
    node = _node(ranks)
    together(ranks, lambda: _prepare(stored, checkpoints, resumed) if ranks.rank == node[0] != 0 else None)
    local = dataclasses.replace(
        parameters,
        results_dir=str(work),
        save_checkpoint_path=str(checkpoints),
        load_checkpoint_path=str(checkpoints) if resumed else parameters.load_checkpoint_path,
    )
    if ranks.rank:
        yield Stage(data, local, lambda prefix, best: send_parts(stored, prefix, ranks.rank))
        return
    with CheckpointUploader(stored, log, checkpoints) as uploader:
        yield Stage(data, local, uploader.send)
    with publishing(folder / "model", step=STEP, inputs={"tfrecord": source}, parameters=comparable) as staging:
        shutil.copytree(work, staging.path, dirs_exist_ok=True)
        _copy_checkpoints(stored, checkpoints, staging.path / CHECKPOINT)
        results = json.loads((work / TRAINING).read_text())
        staging.rows.update(trained_rows(results))
    publish_remote(folder / "model", uri)


def _copy_checkpoints(stored: str, checkpoints: Path, folder: Path) -> None:
    """Copies this node's checkpoints; if tables are sharded over nodes, fetches the complete ones instead."""
    if not any(is_part(path.name) for path in checkpoints.iterdir()):
        shutil.copytree(checkpoints, folder)
        return
    fetch_checkpoint(stored, folder)
    (folder / LOG).unlink()


def _claim(uri: str, dataset: str) -> None:
    """Claims the prefix for this step before the first checkpoint; an earlier model is kept until then."""
    require_output_prefix(uri, STEP, [dataset])
    begin_remote(uri, STEP)


def _stage_data(uri: str, stage: Path, parameters: WorkerParameters, ranks: Ranks) -> Path:
    """Fetches the files that this node's ranks read, on the node's first rank; the others wait."""
    node = _node(ranks)
    folder = stage / f"data-{_digest(uri)}"
    together(ranks, lambda: stage_records(uri, folder, parameters, node, ranks.size) if ranks.rank == node[0] else None)
    return folder


def _node(ranks: Ranks) -> list[int]:
    """The ranks of this node."""
    hosts = ranks.gather(socket.gethostname())
    return [rank for rank, host in enumerate(hosts) if host == hosts[ranks.rank]]


def stage_records(uri: str, folder: Path, parameters: WorkerParameters, node: Sequence[int], size: int) -> None:
    """Fetches the specification, and the record files that the node's ranks read.

    Raises:
        KfrecError: the artifact is unfinished or damaged, or the disk is too small.
    """
    records = (".tfrecord", index_path(Path("x.tfrecord")).suffix)
    fetch_artifact(uri, folder, lambda path: not path.endswith(records)).require_step(("tfrecord",))
    spec = load_feature_spec(folder, parameters.feature_spec)
    samples = samples_of(spec, parameters)
    unneeded = set()
    for split in spec.sources:
        needed = samples.files(spec, split, parameters.global_batch_size, list(node), size)
        unneeded |= {path for number, path in enumerate(spec.files(split)) if number not in needed}
    left_out = {file.relative_to(folder).as_posix() for path in unneeded for file in (path, index_path(path))}
    fetch_artifact(uri, folder, lambda path: path not in left_out)


def _is_there(uri: str, source: Artifact, parameters: dict[str, object]) -> bool:
    """Whether ``uri`` already holds the finished results of the same run."""
    try:
        artifact = open_remote(uri)
    except KfrecError:
        return False
    return artifact.inputs == {"tfrecord": source.digest} and artifact.parameters == parameters


def _resume(uri: str, folder: Path, checkpoints: Path, log: Path) -> bool:
    """Fetches the checkpoints of an earlier attempt and the log up to the newest one, if there are any."""
    shutil.rmtree(folder, ignore_errors=True)
    log.parent.mkdir(parents=True)
    if read_remote(uri, LIST) is None:
        return False
    fetch_checkpoint(uri, checkpoints)
    (checkpoints / LOG).replace(log)
    print(f"resuming from the checkpoint at {uri}", flush=True)
    return True


def _prepare(uri: str, checkpoints: Path, resumed: bool) -> None:
    """Fetches the first node's checkpoints on another node, whose ranks may need table shards."""
    shutil.rmtree(checkpoints, ignore_errors=True)
    if resumed:
        fetch_checkpoint(uri, checkpoints)


def _digest(uri: str) -> str:
    return hashlib.sha256(uri.encode()).hexdigest()[:12]
