"""Counts what a training step costs on a GPU, and prints it by part: ``python -m benchmarks.gpu_model [electra]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure

TARGET_MOVED, TARGET_PEAK = 45e9, 10e9
# Of the GPU for which ELECTRA's micro-batches were published.
MEMORY = 40e9


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_model", description=__doc__)
    parser.add_argument("model", nargs="?", default="sim", choices=("sim", "electra"), help="default %(default)s")
    parser.add_argument("--output", default="build/gpu_model.json", metavar="FILE", help="default %(default)s")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # tracing needs no GPU
    from benchmarks.__main__ import figures_table

    figures, roofs = of_sim() if options.model == "sim" else of_electra()
    print(figures_table([figure.to_dict() for figure in figures]))
    print("\n| precision | GPU | least ms a step | samples/s at most | published on one A100 | of the roof |")
    print("|---|---|---:|---:|---:|---:|")
    print("\n".join(roofs))
    output = Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"figures": [figure.to_dict() for figure in figures]}, indent=2) + "\n")
    return 0


def of_sim() -> tuple[list[Figure], list[str]]:
    """Figures and rooflines of a step of SIM."""
    from benchmarks.gpu_model.kernels import launched
    from benchmarks.gpu_model.trace import PRECISIONS, SAMPLES, traced

    print(f"SIM, {SAMPLES:,} samples on one GPU: counted in the traced step, not measured\n")
    figures, roofs = [], []
    for precision in PRECISIONS:
        graph = traced(precision)
        step = launched(graph)
        print(by_part(precision.name, step.kernels))
        moved = TARGET_MOVED if precision.amp else None
        figures += totals(precision.name, step, graph.conditions, moved, TARGET_PEAK)
        roofs += roofline(precision.name, step.kernels, precision.published, SAMPLES)
    return figures, roofs


def of_electra() -> tuple[list[Figure], list[str]]:
    """Figures and rooflines of a micro-batch and an update of ELECTRA base, in both phases."""
    from benchmarks.gpu_model.kernels import launched
    from benchmarks.gpu_model.trace import PHASES, traced_phase

    print("ELECTRA base, mixed precision and XLA, on one GPU: counted in the traced step, not measured\n")
    figures, roofs = [], []
    for phase in PHASES:
        graph = traced_phase(phase)
        step = launched(graph)
        print(by_part(f"{phase.name}, {phase.samples} texts", step.kernels))
        figures += totals(phase.name, step, graph.conditions, None, MEMORY)
        roofs += roofline(phase.name, step.kernels, phase.published, phase.samples)
    return figures, roofs


def by_part(name: str, kernels: Sequence[Any]) -> str:
    """Launches, bytes and floating-point operations of each part of the step, as a Markdown table."""
    from benchmarks.gpu_model.parts import PARTS

    lines = [f"| {name} | launches | GB read | GB written | GFLOP |", "|---|---:|---:|---:|---:|"]
    for part in (*PARTS, "all"):
        costs = [kernel.cost for kernel in kernels if part in (kernel.part, "all")]
        if costs:
            read, written = sum(cost.read for cost in costs) / 1e9, sum(cost.written for cost in costs) / 1e9
            flops = sum(cost.flops for cost in costs) / 1e9
            lines.append(f"| {part} | {sum(c.launches for c in costs)} | {read:.2f} | {written:.2f} | {flops:,.0f} |")
    return "\n".join(lines) + "\n"


def totals(name: str, step: Any, conditions: int, most_moved: float | None, most_held: float) -> list[Figure]:
    """The totals of a step with their targets, the bytes that it may move and hold."""
    moved = sum(kernel.cost.moved for kernel in step.kernels)
    launches = sum(kernel.cost.launches for kernel in step.kernels)

    def figure(what: str, unit: str, value: float, target: float | None) -> Figure:
        return Figure(name, what, unit, [value], target=target, lower_is_better=True)

    return [
        figure("device operations a step", "", launches, None),
        figure("moved in a step", "GB", moved / 1e9, most_moved / 1e9 if most_moved else None),
        figure("peak memory", "GB", step.peak / 1e9, most_held / 1e9),
        figure("predicates that go to the host", "", conditions, 0),
        figure("copies from the host", "", len(step.sent), None),
        figure("copied from the host", "MB", sum(step.sent) / 1e6, None),
    ]


def roofline(name: str, kernels: Sequence[Any], published: int, samples: int) -> list[str]:
    """Table rows: the lower bound of a step's time on each GPU, and the published speed relative to it."""
    from benchmarks.gpu_model.roofline import GPUS, seconds

    rows = []
    for gpu in GPUS:
        least = seconds(kernels, gpu)
        known = f"{published:,} | {published * least / samples:.0%}" if gpu.name.startswith("A100") else " | "
        rows.append(f"| {name} | {gpu.name} | {least * 1e3:.1f} | {samples / least:,.0f} | {known} |")
    return rows


if __name__ == "__main__":
    sys.exit(main())
