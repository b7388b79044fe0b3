"""A local sweep: prepares the data once; Optuna proposes and prunes trials, each a nested MLflow run."""

from __future__ import annotations

import json
import logging
import math
import os
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components import registry
from components.artifacts.notes import read_notes
from components.errors import KfrecError
from components.progress import duration
from components.secrets import without_passwords
from components.tracking.run import start_nested, tracked_run
from pipelines.local import arguments_of, check_environment, train
from pipelines.runs.earlier import Earlier, finished_steps
from pipelines.runs.lifecycle import begin, running, tracked_at
from pipelines.runs.record import FAILED, STOPPED, RunRecord, read_record
from pipelines.sweep.plan import Dimension, Plan
from pipelines.sweep.trial import SCREEN, Pruned, at_a_time, evaluate, run_trial, shared_out

if TYPE_CHECKING:
    import optuna

    from components.tracking.run import TrackedRun

SWEEP = "sweep.json"
# Beside it: the plan, and Optuna's storage.
PLAN, TRIALS = "plan.json", "trials.db"
# User attributes of a trial: its MLflow run, its own failure, the interrupted trial that it repeats, and whether it was
# dropped because an earlier one has its parameters.
_RUN, _FAILURE, _AGAIN, _DROPPED = "run", "failure", "again", "dropped"
# The last step that all trials share.
_LAST = "tfrecord"


@dataclass(frozen=True)
class Best:
    """The outcome of a sweep.

    Attributes:
        test: its task's primary metric on the test split.
        remarks: the task's, such as that the model is not above the baseline.
    """

    trial: int
    score: float
    test: float
    parameters: dict[str, Any]
    model: str
    command: str
    remarks: tuple[str, ...] = ()


class _Repeated(Exception):
    """An earlier trial has the parameters of this one."""


def sweep(plan: Plan, path: Path, workdir: Path, data: RunRecord | None = None, minutes: float | None = None) -> Best:
    """Prepares the data, runs the trials, evaluates the best one, and writes sweep.json into the run folder.

    An interrupted sweep of the same plan and data resumes in its run folder. Its number of trials, parallelism, pruning
    and Katib's settings may differ.

    Args:
        data: run to reuse valid data artifacts from; None prepares all data.
        minutes: after which no trial begins, from the first trial on; None is no limit.

    Raises:
        KfrecError: Optuna is missing, a step failed, or all trials failed.
    """
    if find_spec("optuna") is None:
        raise KfrecError("kfrec sweep needs optuna; install kfrec[sweep]")
    arguments = arguments_of(plan.pipeline, plan.parameters, workdir)
    check_environment(plan.pipeline, arguments)
    ended = ended_sweep(plan, workdir, data)
    record = ended or begin(plan.pipeline, arguments, workdir)
    if ended:
        record.parameters = dict(arguments)
        os.environ["MLFLOW_TRACKING_URI"] = tracked_at(record)
        _echo(f"resumes the sweep in {record.folder}")
    words = ("kfrec", "sweep", path.absolute(), "--workdir", workdir.absolute())
    record.purpose = shlex.join(map(str, (*words, "--data", data.folder.absolute()) if data else words))
    with running(record) as output:
        (record.folder / PLAN).write_text(_identity(plan, data))
        source = record if ended and record.steps else data
        earlier = finished_steps(source, plan.pipeline, arguments, _LAST) if source else Earlier()
        output.finished.update({name: dict(event) for name, event in earlier.steps.items()})
        train(plan.pipeline, arguments, record, earlier, output, last=_LAST)
        tfrecord = output.finished["tfrecord"]["outputs"]["tfrecord"]
        study = study_of(plan, record.folder)
        with tracked_run(arguments["experiment"], f"sweep-{record.name}", f"sweep {plan.model}") as parent:
            parent.set_tags({"kfrec.sweep": str(path.absolute())})
            best = _search(plan, study, record, arguments, tfrecord, parent, minutes)
            parent.log_parameters({"best.trial": best.trial} | {f"best.{n}": v for n, v in best.parameters.items()})
            parent.log_metrics({plan.metric_name: best.score, f"test_{plan.primary.name}": best.test})
        body = {
            "best": asdict(best),
            "trials": [_noted(trial) for trial in study.trials if trial.params and not _is_dropped(trial)],
        }
        (record.folder / SWEEP).write_text(json.dumps(body, indent=2) + "\n")
        record.message = (
            f"best trial {best.trial}: validation {plan.metric.label} {best.score:.4f}, "
            f"test {plan.primary.label} {best.test:.4f}"
        )
    return best


def ended_sweep(plan: Plan, workdir: Path, data: RunRecord | None = None) -> RunRecord | None:
    """The newest unfinished run of this plan with these data; None if there is none."""
    for path in sorted(workdir.glob(f"*/{PLAN}"), reverse=True):
        with suppress(KfrecError, OSError):
            record = read_record(path.parent)
            if path.read_text() == _identity(plan, data) and record.state_now() in (FAILED, STOPPED):
                return record
    return None


def _identity(plan: Plan, data: RunRecord | None = None) -> str:
    """What two sweeps must share to combine their trials: most of the plan, and the run that the data come from."""
    body = asdict(plan) | {"parameters": without_passwords(dict(plan.parameters)), "data": data and data.name}
    for name in ("trials", "parallel", "prune", "prune_after", "katib"):
        del body[name]
    return json.dumps(body, indent=2, default=str, sort_keys=True) + "\n"


def study_of(plan: Plan, folder: Path) -> optuna.Study:
    """Creates the Optuna study of a plan, or loads that of an interrupted sweep.

    Interrupted trials are marked as failed, and their parameters are enqueued again. A small grid is enqueued whole.
    """
    import optuna

    optuna.logging.set_verbosity(logging.ERROR)
    study = optuna.create_study(
        storage=f"sqlite:///{folder.absolute() / TRIALS}",
        study_name="sweep",
        load_if_exists=True,
        direction="maximize" if plan.metric.higher_is_better else "minimize",
        pruner=optuna.pruners.MedianPruner(plan.prune_after) if plan.prune else optuna.pruners.NopPruner(),
    )
    # The bare seed would propose the first trials' values again.
    study.sampler = optuna.samplers.TPESampler(seed=(plan.seed + len(study.trials)) % 2**32)
    again = {trial.user_attrs.get(_AGAIN) for trial in study.trials}
    for trial in study.trials:
        if trial.state == optuna.trial.TrialState.RUNNING:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        elif trial.state != optuna.trial.TrialState.FAIL or _FAILURE in trial.user_attrs:
            continue
        if trial.number not in again and not _is_dropped(trial):
            study.enqueue_trial(trial.params, user_attrs={_AGAIN: trial.number})
    for combination in plan.grid:
        study.enqueue_trial(combination, skip_if_exists=True)
    return study


def _is_dropped(trial: optuna.trial.FrozenTrial) -> bool:
    return _DROPPED in trial.user_attrs


def _ended(study: optuna.Study) -> int:
    """Number of trials that are complete, pruned, or failed by themselves."""
    return sum(
        bool(trial.state.name in ("COMPLETE", "PRUNED") or _FAILURE in trial.user_attrs) for trial in study.trials
    )


def _search(
    plan: Plan,
    study: optuna.Study,
    record: RunRecord,
    arguments: Mapping[str, Any],
    tfrecord: str,
    parent: TrackedRun,
    minutes: float | None = None,
) -> Best:
    import optuna

    task = registry.task(plan.pipeline.choices["task"])

    dimensions, name = plan.dimensions, plan.metric_name
    parallel = at_a_time(plan.parallel, int(arguments["workers"]))

    def objective(trial: optuna.Trial) -> float:
        searched = {key: _suggested(trial, key, each, plan) for key, each in dimensions.items()}
        if _is_known(study, trial):
            trial.set_user_attr(_DROPPED, True)
            raise _Repeated
        trial_arguments = shared_out(dict(arguments) | searched, parallel)
        run_id = start_nested(parent, f"trial {trial.number}", {"kfrec.trial": str(trial.number)})
        trial.set_user_attr(_RUN, run_id)

        began, epochs = time.monotonic(), 0

        def is_hopeless(epoch: int, metrics: Mapping[str, Any]) -> bool:
            nonlocal epochs
            epochs = epoch
            score = metrics.get(name)
            if score is None:
                return False
            trial.report(score, epoch)
            return bool(trial.should_prune())

        def tell(outcome: str) -> None:
            values = ", ".join(f"{key}={value}" for key, value in searched.items())
            spent = f"{epochs} epoch{'s' * (epochs != 1)}, {duration(time.monotonic() - began)}"
            _echo(f"trial {trial.number:<4} {outcome}  {spent}  {values}")

        try:
            result = run_trial(
                plan.pipeline, trial_arguments, tfrecord, _folder(record, trial.number), run_id, is_hopeless
            )
            if result.get(name) is None:
                raise KfrecError(f"its {name} is not defined on these data; validate on more samples")
        except Pruned:
            parent.client.set_tag(run_id, "kfrec.trial.pruned", "true")
            tell("pruned")
            raise optuna.TrialPruned from None
        except KfrecError as error:
            trial.set_user_attr(_FAILURE, str(error))
            tell(f"failed: {error}")
            raise
        tell(f"validation {plan.metric.label} {result[name]:.4f}")
        return float(result[name])

    left = max(0, (len(plan.grid) or plan.trials) - _ended(study))
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    while left and time.monotonic() < until:
        dropped = sum(map(_is_dropped, study.trials))
        seconds = None if minutes is None else until - time.monotonic()
        study.optimize(objective, left, seconds, max(1, min(parallel, left)), catch=(KfrecError, _Repeated))
        left = sum(map(_is_dropped, study.trials)) - dropped
    if not any(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials):
        raise KfrecError(f"every trial failed; their logs are in {record.folder / 'trials'}")
    best = study.best_trial
    folder = _folder(record, best.number)
    evaluation = evaluate(plan.pipeline, arguments, tfrecord, folder, best.user_attrs[_RUN])
    metrics = read_notes(evaluation / "metrics.json")
    return Best(
        best.number,
        float(best.value or 0),
        metrics[f"test_{plan.primary.name}"],
        best.params,
        str(folder / "model"),
        _command(plan, best.params),
        tuple(task.remarks(metrics)),
    )


def _is_known(study: optuna.Study, trial: optuna.Trial) -> bool:
    """Whether an earlier trial with these parameters has ended by itself, or runs."""
    return any(
        earlier.params == trial.params
        and (earlier.state.name in ("COMPLETE", "PRUNED", "RUNNING") or _FAILURE in earlier.user_attrs)
        for earlier in study.get_trials(deepcopy=False)
        if earlier.number < trial.number
    )


def _suggested(trial: optuna.Trial, name: str, dimension: Dimension, plan: Plan) -> Any:
    if dimension.choices:
        return trial.suggest_categorical(name, dimension.choices)
    assert dimension.low is not None and dimension.high is not None
    if plan.searchable()[name].value_type is int:
        return trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log)
    return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)


def _folder(record: RunRecord, number: int) -> Path:
    return record.folder / "trials" / f"{number:04d}"


def _command(plan: Plan, best: Mapping[str, Any]) -> str:
    """The command that runs the whole pipeline with these parameters."""
    choices = {"--model": plan.model, "--dataset": plan.dataset, "--task": plan.task}
    words = [word for option, value in choices.items() if value for word in (option, value)]
    values = dict(plan.parameters) | dict(best)
    words += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(["kfrec", "run", *words])


def _noted(trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "parameters": trial.params,
        "score": trial.value,
        "seconds": round(trial.duration.total_seconds(), 1) if trial.duration else None,
        "epochs": {str(epoch): value for epoch, value in trial.intermediate_values.items()},
    }


def _echo(line: str) -> None:
    with SCREEN:
        print(line, file=sys.stderr, flush=True)
