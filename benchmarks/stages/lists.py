"""Lists for every user of raw events by a retrieval model: seconds of few items, and memory of many users and items."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.exported import export_model
from benchmarks.measuring import Figure, Plan, Report, seconds
from benchmarks.samples import specification
from benchmarks.training import worker_step
from components.artifacts import adopt
from components.artifacts.folder import MANIFEST
from components.feature_spec import load_feature_spec

USERS, ITEMS = 20_000, 5_000
MANY_ITEMS, MANY_USERS = 100_000, 1_000_000
CATEGORIES, LENGTH, EVENTS_PER_USER, TOP = 100, 50, 15, 20
# A separate process, like the command.
_LISTS = """
import json, sys, tempfile
from pathlib import Path
from benchmarks.measuring import peak_megabytes
from components.inference.events import events_in, raw_files
from components.inference.history import without_context
from components.inference.recommend import Delivery, write_lists
from components.scoring import load_raw_model
from components.scoring.catalogue import Catalogue
model, events, output = sys.argv[1:4]
raw = load_raw_model(model)
with tempfile.TemporaryDirectory() as scratch:
    people = without_context(events_in(raw_files([events], Path(scratch)), raw, None))
    counts = write_lists(Catalogue(raw), people, int(sys.argv[4]), Delivery(output, []), keep_seen=False)
print(json.dumps([counts.users, peak_megabytes()]))
"""


def measure(folder: Path, plan: Plan, report: Report) -> None:
    of_few = _model(folder / "few", ITEMS)
    events = _events(folder / "few.parquet", USERS, ITEMS)
    took = [seconds(lambda: _lists(of_few, events, USERS)) for _ in range(min(plan.runs, 3))]
    name = f"{TOP} of {ITEMS:,} items for {USERS:,} users, from {USERS * EVENTS_PER_USER:,} events"
    report.add(Figure("lists", name, "s", took, target=15, lower_is_better=True, note="with the start of the process"))

    of_many = _model(folder / "many", MANY_ITEMS)
    for users in (USERS // 2, MANY_USERS if plan.full else USERS):
        peak = _lists(of_many, _events(folder / "many.parquet", users, MANY_ITEMS), users)
        name = f"peak memory, {TOP} of {MANY_ITEMS:,} items for {users:,} users"
        report.add(Figure("lists", name, "MB", [peak], target=2000, lower_is_better=True))


def _lists(model: Path, events: Path, users: int) -> float:
    """Writes the lists and returns the peak memory in MB."""
    command: list[str | Path] = [
        sys.executable,
        "-c",
        _LISTS,
        model,
        events,
        events.with_name("lists.parquet"),
        str(TOP),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    listed, megabytes = json.loads(done.stdout.splitlines()[-1])
    assert listed == users
    return float(megabytes)


def _model(folder: Path, items: int) -> Path:
    """A model of random weights that reads histories from events."""
    spec = specification(USERS, items, CATEGORIES, LENGTH)
    sizes = {"uid": USERS, "item": items, "cat": CATEGORIES}
    export_model(folder, "sasrec", worker_step("sasrec", spec).model, spec, sizes)
    written = load_feature_spec(folder)
    notes = {**written.metadata, "encoding": {"dataset": "events", "reading": {}}}
    (folder / "feature_spec.yaml").write_text(replace(written, metadata=notes).to_yaml())
    (folder / MANIFEST).unlink()
    adopt(folder)
    return folder


def _events(path: Path, users: int, items: int) -> Path:
    """A table of events in no order, written a part of the users at a time."""
    random = np.random.default_rng(1)
    schema = pa.schema([("user", pa.string()), ("item", pa.string()), ("timestamp", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, users, USERS):
            user = np.repeat(np.arange(first, min(first + USERS, users)), EVENTS_PER_USER)
            named = [f"A{number}" for number in random.permutation(user).tolist()]
            bought = [f"B{number}" for number in random.integers(3, items + 1, len(user)).tolist()]
            times = random.integers(1_700_000_000, 1_703_000_000, len(user))
            writer.write_table(pa.table([named, bought, times], schema=schema))
    return path
