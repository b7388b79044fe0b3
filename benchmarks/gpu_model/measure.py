"""Times SIM's training step on the GPU at hand: ``python -m benchmarks.gpu_model.measure``.

Each precision runs on the same batch in one process. A step is timed over several in a row, since the host launches
ahead of the GPU. A profile of a few steps counts kernels and sums their time by part.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.gpu_model.parts import part_named
from benchmarks.gpu_model.trace import PRECISIONS, SAMPLES, Precision, step_of
from benchmarks.samples import sample_columns, specification
from components.train.loop.transfer import Batch

_MEASURED = (*PRECISIONS, Precision("float32, XLA", amp=False, xla=True, published=0))


@dataclass
class Measured:
    """A precision's step.

    Attributes:
        precision: its name.
        ms: milliseconds of a step, the median of ``runs``.
        runs: milliseconds of a step, of each run of steps in a row.
        losses: of the first and the fourth step.
        gigabytes: peak memory.
        first_s: seconds of the first step, with tracing and compilation.
        kernels, busy_ms: of a step by part; copies are "copies".
    """

    precision: str
    ms: float
    runs: list[float]
    losses: list[float]
    gigabytes: float
    first_s: float
    kernels: dict[str, float] = field(default_factory=dict)
    busy_ms: dict[str, float] = field(default_factory=dict)
    longest: list[tuple[str, float]] = field(default_factory=list)

    def row(self, samples: int) -> str:
        speed = f"{samples / self.ms * 1e3:,.0f}"
        spread = f"{min(self.runs):.2f} to {max(self.runs):.2f}"
        kernels = f"{sum(self.kernels.values()):,.0f}" if self.kernels else ""
        busy = f"{sum(self.busy_ms.values()):.1f}" if self.kernels else ""
        losses = " ".join(f"{loss:.5f}" for loss in self.losses)
        memory, first = f"{self.gigabytes:.1f}", f"{self.first_s:.0f}"
        cells = [self.precision, f"{self.ms:.2f}", spread, speed, memory, kernels, busy, losses, first]
        return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_model.measure", description=__doc__)
    parser.add_argument("--output", default="build/gpu_measured.json", metavar="FILE", help="default %(default)s")
    parser.add_argument("--samples", type=int, default=SAMPLES, metavar="N", help="of a batch; default %(default)s")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="in a row; default %(default)s")
    parser.add_argument("--device", default="GPU", help=argparse.SUPPRESS)  # CPU tries the program
    options = parser.parse_args()
    if not tf.config.list_physical_devices(options.device):
        parser.error("TensorFlow sees no GPU; run this where it does, such as in the train image")
    columns = sample_columns(options.samples, seed=1).values()
    batch = {name: values.astype(np.int32) for name, values in zip(specification().features, columns, strict=True)}
    results = []
    for gpu in tf.config.list_physical_devices("GPU"):
        print(tf.config.experimental.get_device_details(gpu), flush=True)
    print("| precision | ms a step | runs | samples/s | peak GB | kernels | busy ms | losses | first step s |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|", flush=True)
    output = Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    for precision in _MEASURED:
        results.append(measure(precision, batch, options.samples, options.steps, options.device))
        print(results[-1].row(options.samples), flush=True)
        output.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 0


def measure(precision: Precision, columns: Batch, samples: int, steps: int, device: str) -> Measured:
    """Times a step of ``samples`` samples, over five runs of ``steps`` steps in a row, and profiles three steps."""
    tf.keras.backend.clear_session()
    if device == "GPU":
        tf.config.experimental.reset_memory_stats("GPU:0")
    began = time.monotonic()
    step, handed = step_of(precision, samples)
    batch = handed.sent(columns)
    loss = float(step.run(batch))
    first = time.monotonic() - began
    for _ in range(3):
        last = step.run(batch)
    losses = [loss, float(last)]
    runs = []
    for _ in range(5):
        began = time.monotonic()
        for _ in range(steps):
            last = step.run(batch)
        float(last)
        runs.append((time.monotonic() - began) / steps * 1e3)
    memory = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e9 if device == "GPU" else 0.0
    result = Measured(precision.name, statistics.median(runs), runs, losses, memory, first)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(3):
            last = step.run(batch)
        float(last)
        tf.profiler.experimental.stop()
        _profiled(Path(folder), 3, result)
    return result


def _profiled(folder: Path, steps: int, result: Measured) -> None:
    """Adds the kernels of a profile to the result, by part."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    kernels, busy, longest = Counter[str](), Counter[str](), Counter[str]()
    for path in folder.rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            if not plane.name.startswith("/device:GPU"):
                continue
            names = {number: metadata.name for number, metadata in plane.stat_metadata.items()}
            for line in plane.lines:
                if not line.name.startswith("Stream"):
                    continue
                for event in line.events:
                    kernel = plane.event_metadata[event.metadata_id].name
                    stats = {names[stat.metadata_id]: stat for stat in event.stats}
                    operation = _text(plane, stats.get("tf_op"))
                    part = "copies" if kernel.startswith("Mem") else part_named(operation.split(":")[0])
                    kernels[part] += 1
                    busy[part] += event.duration_ps / 1e9
                    longest[f"{operation}  {kernel}"[:160]] += event.duration_ps / 1e9
    result.kernels = {part: number / steps for part, number in kernels.most_common()}
    result.busy_ms = {part: ms / steps for part, ms in busy.most_common()}
    result.longest = [(name, ms / steps) for name, ms in longest.most_common(40)]


def _text(plane: Any, stat: Any) -> str:
    if stat is None:
        return ""
    return str(stat.str_value or plane.stat_metadata[stat.ref_value].name)


if __name__ == "__main__":
    raise SystemExit(main())
