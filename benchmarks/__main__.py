"""Measures the stages one after another and prints a table: ``python -m benchmarks [--full] [STAGE ...]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import described
from benchmarks.measuring import Plan, Report

STAGES = (
    "startup", "convert", "read", "tables", "step", "dlrm", "wide_and_deep", "scaling", "preprocess", "outbrain",
    "criteo", "text", "electra", "evaluate", "serve", "load", "retrieval", "lists",
)  # fmt: skip


def main() -> int:
    options = _parser().parse_args()
    if options.child:
        module = importlib.import_module(f"benchmarks.stages.{options.stages[0]}")
        module.measure(Path(options.child), Plan.of(options.full), Report())
        return 0
    started = time.monotonic()
    figures: list[dict[str, Any]] = []
    failed = []
    for stage in options.stages or STAGES:
        print(f"measuring {stage} ...", file=sys.stderr, flush=True)
        begun = time.monotonic()
        done, measured = _stage(stage, options.full)
        print(f"{stage} took {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        figures += measured
        if not done:
            failed.append(stage)
    body = {"machine": described(), "full": options.full, "figures": figures, "seconds": time.monotonic() - started}
    output = Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(body, indent=2) + "\n")
    print(table(body))
    print(f"{body['seconds']:.0f} s; all values in {output}")
    if failed:
        print(f"error: {', '.join(failed)} failed; the messages are above the table", file=sys.stderr)
    return 1 if failed else 0


def _stage(stage: str, full: bool) -> tuple[bool, list[dict[str, Any]]]:
    """Runs one stage in a separate process; returns whether it succeeded, and its figures."""
    with tempfile.TemporaryDirectory(prefix="kfrec-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks", stage, "--child", folder, *(["--full"] if full else [])]
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"} | os.environ
        done = subprocess.run(command, stdout=subprocess.PIPE, env=quiet, text=True)
    lines = (line for line in done.stdout.splitlines() if line.startswith('{"figure"'))
    return done.returncode == 0, [json.loads(line)["figure"] for line in lines]


def table(body: dict[str, Any]) -> str:
    """The figures as a Markdown table, below a description of the machine."""
    machine = body["machine"]
    machine_line = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    return f"{machine_line}\n\n{figures_table(body['figures'])}"


def figures_table(figures: list[dict[str, Any]]) -> str:
    """Figures as a Markdown table."""
    lines = [
        "| stage | figure | median | range | reference | ratio | target | met |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for f in figures:
        target = [f"{_number(f['target'])} {f['unit']}"] if f["target"] is not None else []
        target += [f"{f['target_ratio']:g}x"] if f["target_ratio"] is not None else []
        cells = (
            f["stage"],
            f["name"],
            f"{_number(f['median'])} {f['unit']}",
            f"{_number(min(f['values']))} to {_number(max(f['values']))} ({len(f['values'])})",
            _number(median(f["reference"])) if f["reference"] else "",
            f"{f['ratio']:.3g}x" if f["ratio"] else "",
            ", ".join(target),
            {True: "yes", False: "no", None: ""}[f["met"]],
        )
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"{f['name']}: {f['note']}" for f in figures if f["note"]]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "stages", nargs="*", type=_known, metavar="STAGE", help=f"one or more of {', '.join(STAGES)}; default all"
    )
    parser.add_argument("--full", action="store_true", help="more runs and larger sizes; takes half an hour")
    parser.add_argument("--output", default="build/benchmarks.json", metavar="FILE", help="default %(default)s")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    return parser


def _known(stage: str) -> str:
    if stage not in STAGES:
        raise argparse.ArgumentTypeError(f"unknown stage {stage}; the stages are {', '.join(STAGES)}")
    return stage


if __name__ == "__main__":
    sys.exit(main())
