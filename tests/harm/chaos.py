"""Kills every step, every rank of a training and every worker at random moments, again and again.

    python -m tests.harm.chaos [--minutes 10 | --kills 20] [--seed N] [--only train]

A victim is killed once to three times in a row, at moments drawn from the time that an undisturbed run takes;
then the step runs to its end. A kill survives if no process goes on, no other file changed, no unfinished output is
there, an error is one line, and the rerun gives what the undisturbed run gave: the same bytes, and a training the same
losses and scores within 1e-6. The exit status is 1 if anything else was seen.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from components.errors import KfrecError
from tests.harm.place import RAW, build, everything
from tests.harm.test_kills import alive, nothing_goes_on, started
from tests.harm.victims import Reference, Victim, difference, results_of, victims, wait

# A lost or hung rank has to end the training in this time: Gloo waits half a minute, horovodrun some more.
_BOUND_SECONDS = 400.0
_LONGEST_CHAIN = 3


class Chaos:
    """The kills of one call.

    Args:
        folder: with everything that :func:`tests.harm.place.build` makes.
        rng: draws victims' moments and signals.
    """

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder, self._rng = folder, rng
        self._references: dict[str, Reference] = {}
        self._inputs = everything(folder)
        self.kills: Counter[str] = Counter()
        self.survived: Counter[str] = Counter()
        self.surprises: list[tuple[str, str]] = []

    def chain(self, victim: Victim, most: int) -> None:
        """Kills a victim some times, then lets the step finish and compares."""
        # A champion that the register step makes would be in the report of the evaluate step.
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{self._folder.parent}/mlflow-{victim.step}/mlflow.db"
        reference = self._reference(victim)
        if self._rng.random() < 0.5:
            shutil.rmtree(self._folder / victim.made)  # otherwise an earlier output has to stay whole
        seen = len(self.surprises)
        kills = 1 if victim.hangs else self._rng.randint(1, min(_LONGEST_CHAIN, most))
        done = sum(self._kill(victim, reference) for _ in range(kills))
        if done:
            self._finish(victim, reference)
        self.kills[victim.name] += done
        if len(self.surprises) == seen:
            self.survived[victim.name] += done

    def _reference(self, victim: Victim) -> Reference:
        if victim.step not in self._references:
            began = time.monotonic()
            said = self._run(victim)
            if said:
                raise SystemExit(f"an undisturbed {victim.step} failed: {said}")
            found = results_of(victim.step, self._folder / victim.made)
            self._references[victim.step] = Reference(time.monotonic() - began, found)
        if not (self._folder / victim.made).exists():
            self._run(victim)
        return self._references[victim.step]

    def _kill(self, victim: Victim, reference: Reference) -> bool:
        """One kill; False where the step had finished before."""
        number = self._rng.choice(victim.signals)
        moment = self._rng.uniform(0.02, 0.98) * reference.seconds
        had_output = (self._folder / victim.made).exists()
        with started(victim.command(self._folder)) as (process, mark), tempfile.TemporaryFile("w+") as said:
            assert process.stdout is not None
            reader = subprocess.Popen(["cat"], stdin=process.stdout, stdout=said)
            there = wait(process, moment)
            while there and (pid := victim.chosen(process, mark)) is None:
                there = wait(process, 0.05)
            if not there:
                reader.wait()
                return False
            assert pid is not None
            print(f"{victim.name}: {number.name} after {moment:.1f} s", file=sys.stderr, flush=True)
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, number)
            if wait(process, _BOUND_SECONDS):
                self._surprise(victim, f"{number.name} after {moment:.1f} s: goes on for {_BOUND_SECONDS:.0f} s")
            elif not nothing_goes_on(mark):
                self._surprise(victim, f"{number.name} after {moment:.1f} s: processes {alive(mark)} go on")
            for left in alive(mark):
                os.kill(left, signal.SIGKILL)
            reader.wait()
            said.seek(0)
            self._look(victim, number, moment, process.wait(), said.read(), had_output)
        return True

    def _look(
        self, victim: Victim, number: signal.Signals, moment: float, status: int, said: str, had_output: bool
    ) -> None:
        """What a kill left."""
        told = f"{number.name} after {moment:.1f} s, status {status}"
        errors = [line for line in said.splitlines() if line.startswith("error:")]
        # A worker's traceback is the report of a crash; the step's own is a surprise.
        if victim.name == victim.step and "Traceback" in said:
            self._surprise(victim, f"{told}: traceback: {said[-1500:]}")
        # Python itself dies before kfrec has set its handlers, and after it has removed them.
        if number == signal.SIGTERM and status not in (0, 1, 128 + number, -number):
            self._surprise(victim, f"{told}: {said[-1500:]}")
        if status > 0 and len(errors) != 1:
            self._surprise(victim, f"{told}: {len(errors)} error lines: {said[-1500:]}")
        now = everything(self._folder)
        changed = [name for name, content in self._inputs.items() if now.get(name) != content]
        if changed:
            self._surprise(victim, f"{told}: changed {changed[:3]}")
        output = self._folder / victim.made
        if output.exists():
            self._compare(victim, self._references[victim.step], f"{told}: its output")
        elif had_output and number != signal.SIGKILL:
            self._surprise(victim, f"{told}: an earlier output is gone")

    def _finish(self, victim: Victim, reference: Reference) -> None:
        said = self._run(victim)
        if said:
            self._surprise(victim, f"the rerun failed: {said}")
            shutil.rmtree(self._folder / victim.made, ignore_errors=True)
            return
        self._compare(victim, reference, "the rerun")
        hidden = [path.name for path in self._folder.iterdir() if path.name.startswith(".")]
        if hidden:
            self._surprise(victim, f"the rerun left {hidden}")

    def _compare(self, victim: Victim, reference: Reference, what: str) -> None:
        try:
            found = results_of(victim.step, self._folder / victim.made)
        except KfrecError as error:
            self._surprise(victim, f"{what}: {error}")
            return
        if other := difference(reference.found, found, victim.step):
            self._surprise(victim, f"{what}: {other}")

    def _run(self, victim: Victim) -> str:
        """Runs the step to its end; what it said if it failed."""
        words = [sys.executable, "-m", *victim.command(self._folder)]
        done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": sys.path[0]})
        return (done.stdout + done.stderr)[-2000:] or f"status {done.returncode}" if done.returncode else ""

    def _surprise(self, victim: Victim, told: str) -> None:
        self.surprises.append((victim.name, told))
        print(f"surprise: {victim.name}: {told}", file=sys.stderr, flush=True)


def main() -> int:
    """Prints a table of the victims, and what was seen; 1 if anything was, or if nothing was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harm.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="end after so many minutes (10)")
    parser.add_argument("--kills", type=int, default=0, help="kill each victim so often instead, however long it takes")
    parser.add_argument("--seed", type=int, default=None, help="of moments and signals; drawn and printed by default")
    parser.add_argument("--only", default="", help="the victim of this name, or all whose names begin so")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"chaos: seed {seed}", flush=True)
    rng = random.Random(seed)
    everyone = victims(rng)
    chosen = [victim for victim in everyone if victim.name == options.only]
    chosen = chosen or [victim for victim in everyone if victim.name.startswith(options.only)]
    if not chosen:
        parser.error(f"--only {options.only}: names no victim")
    root = str(Path(__file__).parents[2])
    sys.path.insert(0, root)
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{temporary}/mlflow/mlflow.db"
        folder = Path(temporary) / "here"
        folder.mkdir()
        os.chdir(folder)
        build(folder)
        shutil.copytree(folder / RAW, folder / "versions" / "2020-01-01")
        (folder / "versions" / "2020-01-01" / "_manifest.json").unlink()
        chaos = Chaos(folder, rng)
        until = time.monotonic() + options.minutes * 60
        while chosen:
            victim = min(chosen, key=lambda v: chaos.kills[v.name])
            left = options.kills - chaos.kills[victim.name] if options.kills else _LONGEST_CHAIN
            if left <= 0 or (not options.kills and time.monotonic() > until):
                break
            chaos.chain(victim, left)
        os.chdir(root)
    print(f"{'victim':<22}{'kills':>7}{'survived':>10}{'surprises':>11}")
    of = Counter(name for name, _ in chaos.surprises)
    for victim in chosen:
        name = victim.name
        print(f"{name:<22}{chaos.kills[name]:>7}{chaos.survived[name]:>10}{of[name]:>11}")
    print(f"{'all':<22}{chaos.kills.total():>7}{chaos.survived.total():>10}{len(chaos.surprises):>11}")
    for name, told in chaos.surprises:
        print(f"surprise: {name}: {told}")
    if not chaos.kills.total():
        print("nothing was killed in this time; give more --minutes")
    return 1 if chaos.surprises or not chaos.kills.total() else 0


if __name__ == "__main__":
    sys.exit(main())
