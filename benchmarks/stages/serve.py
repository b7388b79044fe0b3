"""Latency of raw rows through the registered model, against its SavedModel with encoded features."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mlflow

from benchmarks.exported import export_model
from benchmarks.measuring import Figure, Plan, Report
from benchmarks.samples import CATEGORIES, ITEMS, USERS, specification
from benchmarks.stages.step import our_step
from components.register.logged import logged
from components.scoring import load_model
from components.scoring.model import MODEL_FILES

CANDIDATES, CALLS = (1, 100), 40
# A separate process with TensorFlow's serving settings, like a server.
_SERVE = """
import json, sys, time
import mlflow, numpy as np, pandas as pd, pyarrow as pa
model = mlflow.pyfunc.load_model(sys.argv[1])
raw = model.unwrap_python_model().served.model
history = [f"B{number}" for number in range(1, 101)]
def seconds(job):
    started = time.perf_counter()
    job()
    return time.perf_counter() - started
for line in sys.stdin:
    count, calls = json.loads(line)
    rows = pd.DataFrame({"user": ["A7"] * count, "history": [history] * count,
                         "item": [f"B{number}" for number in range(500, 500 + count)]})
    arrays = {name: pa.array(rows[name]) for name in rows}
    features = raw.rows.encode(arrays).features
    jobs = {"served": lambda: model.predict(rows), "rows": lambda: raw.score(arrays),
            "saved_model": lambda: raw.model.begin(features)()}
    took = {name: [] for name in jobs}
    for _ in range(calls):
        for name, job in jobs.items():
            took[name].append(seconds(job))
    print(json.dumps({name: float(np.median(values)) for name, values in took.items()}), flush=True)
"""


def measure(folder: Path, plan: Plan, report: Report) -> None:
    sizes = {"uid": USERS, "item": ITEMS, "cat": CATEGORIES}
    served = save_pyfunc(export_model(folder / "model", "sim", our_step().model, specification(), sizes))
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(served)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        asked, answered = server.stdin, server.stdout
        assert asked and answered

        def ask(count: int, calls: int) -> dict[str, float]:
            print(json.dumps([count, calls]), file=asked, flush=True)
            return json.loads(answered.readline())

        for count in CANDIDATES:
            ask(count, 5)
            runs = [ask(count, CALLS) for _ in range(plan.runs)]
            times = {name: [1000 * run[name] for run in runs] for name in runs[0]}
            candidates = f"{count} candidate{'' if count == 1 else 's'}, history of 100"
            for name, what in (("served", "mlflow.pyfunc"), ("rows", "raw rows without mlflow")):
                report.add(
                    Figure(
                        "serve", f"latency of {candidates}, {what}", "ms", times[name], times["saved_model"],
                        lower_is_better=True, note="the reference is the SavedModel with encoded features",
                    )
                )  # fmt: skip
        asked.close()


def save_pyfunc(kept: Path) -> Path:
    """An exported model as that of an MLflow version, beside its folder."""
    how, saved = logged(load_model(kept), dict), kept.with_name(f"{kept.name} of mlflow")
    mlflow.pyfunc.save_model(
        saved,
        python_model=str(how.code),
        artifacts={Path(name).stem: str(kept / name) for name in MODEL_FILES if (kept / name).exists()},
        signature=how.signature,
        pip_requirements=[],
    )
    return saved
