"""A sweep on this machine: data once, then trials that Optuna proposes and prunes, each a nested run in MLflow."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.tracking import start_nested, tracked_run
from pipelines.local import arguments_of, check_environment, train
from pipelines.runs.earlier import Earlier, left_by
from pipelines.runs.record import RunRecord
from pipelines.runs.underway import begin, underway
from pipelines.sweep.plan import Dimension, Plan
from pipelines.sweep.trial import SCREEN, Pruned, at_a_time, run_trial, shared_out

if TYPE_CHECKING:
    import optuna

    from components.tracking import TrackedRun

SWEEP = "sweep.json"
# The last step that all trials share.
_LAST = "tfrecord"


@dataclass(frozen=True)
class Best:
    """The outcome of a sweep.

    Attributes:
        trial: number of the best trial.
        score: its metric on the test split after the last epoch.
        parameters: what was searched.
        model: folder of its model.
        command: runs it as a whole.
    """

    trial: int
    score: float
    parameters: dict[str, Any]
    model: str
    command: str


def sweep(plan: Plan, path: Path, workdir: Path, data: RunRecord | None = None) -> Best:
    """Prepares the data, runs the trials, and writes sweep.json into the run folder.

    Args:
        plan: what to search.
        path: of its file.
        workdir: folder of runs.
        data: run whose data are taken, as far as they are what this sweep would prepare; None prepares them.

    Raises:
        KfrecError: Optuna is missing, a step failed, or every trial did.
    """
    if find_spec("optuna") is None:
        raise KfrecError("kfrec sweep needs optuna; install kfrec[sweep]")
    arguments = arguments_of(plan.pipeline, plan.parameters, workdir)
    check_environment(plan.pipeline, arguments)
    record = begin(plan.pipeline, arguments, workdir)
    places = ("--workdir", workdir.absolute(), "--data", record.folder)
    record.purpose = shlex.join(map(str, ("kfrec", "sweep", path.absolute(), *places)))
    with underway(record) as output:
        earlier = left_by(data, plan.pipeline, arguments, _LAST) if data else Earlier()
        output.finished.update({name: dict(event) for name, event in earlier.steps.items()})
        train(plan.pipeline, arguments, record, earlier, output, last=_LAST)
        tfrecord = output.finished["tfrecord"]["outputs"]["tfrecord"]
        study = study_of(plan)
        with tracked_run(arguments["experiment"], title=f"sweep {plan.model}") as parent:
            parent.set_tags({"kfrec.sweep": str(path.absolute())})
            best = _search(plan, study, record, arguments, tfrecord, parent)
            parent.log_parameters({"best.trial": best.trial} | {f"best.{n}": v for n, v in best.parameters.items()})
            parent.log_metrics({f"test_{plan.metric.name}": best.score})
        body = {"best": asdict(best), "trials": [_noted(trial) for trial in study.trials]}
        (record.folder / SWEEP).write_text(json.dumps(body, indent=2) + "\n")
        record.told = f"best trial {best.trial}: test {plan.metric.label} {best.score:.4f}"
    return best


def study_of(plan: Plan) -> optuna.Study:
    """What Optuna knows of a plan before the first trial."""
    import optuna

    optuna.logging.set_verbosity(logging.ERROR)
    return optuna.create_study(
        direction="maximize" if plan.metric.higher_is_better else "minimize",
        sampler=optuna.samplers.TPESampler(seed=plan.seed),
        pruner=optuna.pruners.MedianPruner(plan.prune_after) if plan.prune else optuna.pruners.NopPruner(),
    )


def _search(
    plan: Plan,
    study: optuna.Study,
    record: RunRecord,
    arguments: Mapping[str, Any],
    tfrecord: str,
    parent: TrackedRun,
) -> Best:
    import optuna

    dimensions, name = plan.dimensions, f"test_{plan.metric.name}"
    parallel = at_a_time(plan.parallel, int(arguments["workers"]))

    def objective(trial: optuna.Trial) -> float:
        searched = {key: _suggested(trial, key, each, plan) for key, each in dimensions.items()}
        given = shared_out(dict(arguments) | searched, parallel)
        run_id = start_nested(parent, f"trial {trial.number}", {"kfrec.trial": str(trial.number)})

        def is_hopeless(epoch: int, metrics: Mapping[str, Any]) -> bool:
            score = metrics.get(name)
            if score is None:
                return False
            trial.report(score, epoch)
            return bool(trial.should_prune())

        told = ", ".join(f"{key}={value}" for key, value in searched.items())
        try:
            found = run_trial(plan.pipeline, given, tfrecord, _folder(record, trial.number), run_id, is_hopeless)
            if found.get(name) is None:
                raise KfrecError(f"its {name} is not defined on these data")
        except Pruned:
            parent.client.set_tag(run_id, "kfrec.trial.pruned", "true")
            _tell(f"trial {trial.number:<4} pruned  {told}")
            raise optuna.TrialPruned from None
        except KfrecError as error:
            _tell(f"trial {trial.number:<4} failed: {error}  {told}")
            raise
        _tell(f"trial {trial.number:<4} test {plan.metric.label} {found[name]:.4f}  {told}")
        return float(found[name])

    study.optimize(objective, plan.trials, n_jobs=min(parallel, plan.trials), catch=(KfrecError,))
    if not any(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials):
        raise KfrecError(f"every trial failed; their logs are in {record.folder / 'trials'}")
    best = study.best_trial
    folder = _folder(record, best.number)
    return Best(best.number, float(best.value or 0), best.params, str(folder / "model"), _command(plan, best.params))


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
        "epochs": {str(epoch): value for epoch, value in trial.intermediate_values.items()},
    }


def _tell(line: str) -> None:
    with SCREEN:
        print(line, file=sys.stderr, flush=True)
