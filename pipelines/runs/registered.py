"""The registered models of MLflow's store: their versions and aliases, and which of them is the default."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components import registry
from components.errors import KfrecError
from components.tracking.champion import AWAITING, CHALLENGER, CHAMPION, DATA_VERSION, JUDGED_AS, ROWS, versions_of
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.standing import DECISION, ROLLED_BACK, rolled_back
from components.tracking.store import connect, database_of, missing, tracking_uri
from pipelines.runs.record import RunRecord, every_run
from pipelines.summary import published

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

_COLUMNS = ("registered model", "version", "alias", "model", "registered", "trained on", "metric")


def registered() -> list[dict[str, Any]]:
    """Every version of every registered model, by name and version; empty if the store does not exist yet.

    Raises:
        KfrecError: the store cannot be used.
    """
    from mlflow.exceptions import MlflowException

    database = database_of(tracking_uri())
    if database and not database.is_file():
        return []
    client = connect()
    try:
        return [
            _described(client, held, [alias for alias, of in model.aliases.items() if str(of) == str(held.version)])
            for model in client.search_registered_models(max_results=1000)
            for held in sorted(versions_of(client, model.name), key=lambda held: int(held.version))
        ]
    except (MlflowException, *missing()) as error:
        raise unusable(client.tracking_uri, error) from error


def _described(client: MlflowClient, held: ModelVersion, aliases: Sequence[str]) -> dict[str, Any]:
    run = _run_of(client, held)
    logged, metrics = (run.data.params, run.data.metrics) if run else ({}, {})
    decision = json.loads(held.tags.get(DECISION, "{}"))
    metric = decision.get("metric", "")
    return {
        "name": held.name,
        "version": int(held.version),
        "aliases": sorted(aliases),
        "model": logged.get("register.model_type", ""),
        "registered": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(held.creation_timestamp / 1000)),
        "data": held.tags.get(DATA_VERSION) or logged.get("download.source", ""),
        "rows": int(held.tags[ROWS]) if held.tags.get(ROWS, "").isdigit() else None,
        "judged_as": held.tags.get(JUDGED_AS),
        "rolled_back": rolled_back(held),
        "metric": metric,
        "label": _label(metric, logged),
        "score": decision.get("score"),
        "interval": [metrics[f"{metric}_low"], metrics[f"{metric}_high"]] if f"{metric}_low" in metrics else None,
    }


def _label(metric: str, logged: Mapping[str, str]) -> str:
    """A metric as reports write it, such as "test NDCG@10" for test_ndcg; else its name.

    Args:
        logged: parameters of the MLflow run.
    """
    split, _, name = metric.partition("_")
    with suppress(KfrecError):  # of a package that is not installed here
        task = registry.task(logged.get("register.task", "")).at(logged)
        return next((f"{split} {each.label}" for each in task.metrics if each.name == name), metric)
    return metric.replace("_", " ")


def _run_of(client: MlflowClient, held: ModelVersion) -> Run | None:
    """The MLflow run of a version; None if it was deleted."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(held.run_id) if held.run_id else None
    except MlflowException as error:
        if is_of_the_store(error):
            raise
        return None


def table(versions: Sequence[Mapping[str, Any]]) -> str:
    rows = [_COLUMNS, *map(_row, versions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(held: Mapping[str, Any]) -> tuple[str, ...]:
    data = held["data"] if held["rows"] is None else f"{held['data']} ({held['rows']:,} rows)".strip()
    score = "" if held["score"] is None else f"{held['label']} {held['score']:.4f}"
    if held["interval"]:
        score += " ({:.4f} to {:.4f})".format(*held["interval"])
    if held["judged_as"]:
        data += f", refit of version {held['judged_as']}"
    aliases = ", ".join([*held["aliases"], *([ROLLED_BACK] if held["rolled_back"] else [])])
    registered = held["registered"][:16].replace("T", " ")
    return held["name"], str(held["version"]), aliases, held["model"], registered, data, score


def default_model(workdir: Path) -> tuple[str, str]:
    """What commands take without a model: the champion of the newest run's registered model, and that run's name.

    Raises:
        KfrecError: no run has registered a model.
    """
    for run in reversed(every_run(workdir, lambda error: None)):
        if name := published(run.summary()).get("model"):
            return f"{name}@{CHAMPION}", run.name
    raise KfrecError(f"{workdir}: no run here has registered a model; name one, see kfrec models")


def aliases(runs: Iterable[RunRecord]) -> dict[tuple[str, str], dict[int, str]]:
    """The versions that have an alias, of each store and registered model: version to alias.

    They are those of a database as it is now, and of a server as of the newest run with each alias: it may be away, or
    want a password, and runs are to be listed nevertheless.
    """
    found: dict[tuple[str, str], dict[str, int]] = {}
    for run in runs:
        if last := published(run.summary()):
            found.setdefault((run.tracking_uri, last["model"]), {})[last["alias"]] = last["version"]
    for uri, name in found:
        database = database_of(uri)
        if database and database.is_file():
            with suppress(sqlite3.Error):  # not yet of this MLflow, or damaged
                found[uri, name] = _aliases_in(database, name)
    return {
        key: {versions[alias]: alias for alias in (AWAITING, CHALLENGER, CHAMPION) if alias in versions}
        for key, versions in found.items()
    }


def _aliases_in(database: Path, name: str) -> dict[str, int]:
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as store:
        query = "SELECT alias, version FROM registered_model_aliases WHERE name = ?"
        return {alias: int(version) for alias, version in store.execute(query, (name,))}
