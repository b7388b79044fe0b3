"""Live quality of the versions of a model by day: what came of the rows that each has answered, and their drift."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from components import registry
from components.checks import PROFILE
from components.checks.profile import CATEGORY, NUMBER, Profile, read_profile
from components.checks.profiler import stability_index
from components.checks.tables import Profiled, TableProfiler
from components.contract import PROBABILITY
from components.errors import KfrecError
from components.feature_spec import Channel
from components.feedback.rows import LABEL, Group, codes_of, columns_of
from components.inference.model import NamedModel, named_model
from components.metrics import mean_interval
from components.parameters import build
from components.progress import warn
from components.scoring import RawModel
from components.tasks import Measured, Scores, TaskDefinition
from components.workflows.values import DEFAULT_MISSING, numbers, texts

# Largest difference of a probability that is computed twice: float32 sums differ between batches of other sizes.
_ROUNDING = 1e-5
# Begins the names of the served columns' population stability indices.
DRIFT = "psi_"


class Models:
    """The versions of a model, loaded once each; close it to remove their files.

    Args:
        named: the version that is judged, or a folder, whose version is empty in served rows.

    Attributes:
        name: of the registered model, or of the folder, as served rows have it.
    """

    def __init__(self, named: NamedModel, registered: bool) -> None:
        self.name = named.name.rstrip("/").rpartition("/")[2]
        self._stack = ExitStack()
        self._held: dict[str, RawModel | None] = {named.version if registered else "": named.raw}

    def of(self, version: str) -> RawModel | None:
        """A version; None, and a warning, if it cannot be loaded."""
        if version not in self._held:
            try:
                self._held[version] = self._stack.enter_context(named_model(f"{self.name}/{version}")).raw
            except KfrecError as error:
                warn("feedback", f"version {version} is gone", f"rows of version {version} are not recomputed: {error}")
                self._held[version] = None
        return self._held[version]

    def close(self) -> None:
        self._stack.close()


@dataclass(frozen=True)
class Live:
    """What is known of a version on a day, or of all its days.

    Attributes:
        metrics: by name; ``live_`` begins those of the task.
        measured: of the task; None where rows have one class, or no scores.
    """

    version: str
    day: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured | None = None


def task_of(model: RawModel) -> TaskDefinition:
    trained = model.model.parameters
    return registry.task(str(trained.get("task") or registry.model(str(trained["model_type"])).task))


def scores_of(rows: pd.DataFrame, probabilities: np.ndarray, task: TaskDefinition) -> Scores:
    """Labelled rows as a task measures them: users and requests are the clusters and groups of its kept columns."""
    kept = {}
    for column in task.kept:
        plain = not (column.counted or column.trained or column.occurring_in)
        of = {Channel.USER: "user", Channel.GROUP: "request_id"}.get(column.channel)
        codes = codes_of(rows[of]) if of and plain else None
        if codes is not None:
            kept[column.name] = codes
    return Scores({LABEL: rows[LABEL].to_numpy(np.int8)}, {PROBABILITY: np.asarray(probabilities, np.float64)}, kept)


def measured(rows: pd.DataFrame, task: TaskDefinition) -> Measured | None:
    """The task's measurements of labelled rows by their logged probabilities; None if it cannot measure them."""
    if not len(rows) or rows["probability"].isna().any():
        return None
    scores = scores_of(rows, rows["probability"].to_numpy(), task)
    try:
        task.require(scores, "the served rows")
    except (KfrecError, KeyError):
        return None
    return task.measure(scores, build(task.evaluation, {}))


def measured_lists(items: pd.DataFrame) -> dict[str, Any]:
    """HR and NDCG of the lists at the shown positions, with the interval of the bootstrap over users.

    With rel_k the label of the item at position k, and n labels of 1 in the list,

        NDCG = sum_k rel_k / log2(k + 1) / sum over k of 1 .. n of 1 / log2(k + 1)

    and 0 for a list without any.
    """
    if not len(items):
        return {}
    gains = items[LABEL].to_numpy() / np.log2(items["rank"].to_numpy(np.float64) + 1)
    lists = pd.DataFrame({"gain": gains, "chosen": items[LABEL].to_numpy(), "user": items["user"].to_numpy()})
    lists = lists.groupby([items["request_id"].to_numpy(), items["row"].to_numpy()]).agg(
        gain=("gain", "sum"), chosen=("chosen", "sum"), user=("user", "first")
    )
    chosen = lists["chosen"].to_numpy(np.int64)
    ideal = np.concatenate([[1.0], np.cumsum(1 / np.log2(np.arange(1, chosen.max(initial=0) + 1) + 1))])
    users = codes_of(lists["user"])
    found: dict[str, Any] = {"live_lists": len(lists)}
    for name, values in (("hr", (chosen > 0).astype(float)), ("ndcg", lists["gain"].to_numpy() / ideal[chosen])):
        found |= mean_interval(values, clusters=users).metrics(f"live_{name}")
    return found


def recomputed(rows: pd.DataFrame, model: RawModel, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The probabilities of scored rows by a model, and how many of their ids it does not know, ``[n]`` each.

    Raises:
        KfrecError: the rows do not fit the model.
    """
    for first in range(0, len(rows), size):
        part = rows.iloc[first : first + size]
        scored = model.score(columns_of(part, [column.name for column in model.columns]))
        yield scored.outputs[PROBABILITY].astype(np.float64), scored.unknown_ids


def live(group: Group, model: RawModel | None, judged: RawModel, task: TaskDefinition, size: int) -> Live:
    """The live quality of a version on a day.

    Args:
        model: the version; None does not score its rows again.
        judged: the version whose profile the served columns are compared with.
        size: rows scored at a time.

    Returns:
        Metrics: rows ``served`` and ``matured``, and their share; those of the task, and of lists; of scored rows the
        share with ids that the version does not know, ``unknown_share``, the share whose score it does not give again,
        ``skew_share``, and the population stability index of each served column, ``psi_<column>``.
    """
    rows, items = group.matured, group.matured_items
    matured = len(rows) + len(items)
    metrics: dict[str, Any] = {"served": group.served, "matured": matured, "matured_share": matured / group.served}
    found = measured(rows, task)
    if found is not None:
        metrics |= {f"live_{name.removeprefix('test_')}": value for name, value in found.metrics.items()}
    metrics |= measured_lists(items)
    logged = group.scored[group.scored["columns"].notna() & group.scored["probability"].notna()]
    if model is not None and len(logged) and PROBABILITY in model.outputs:
        try:
            parts = list(recomputed(logged, model, size))
        except KfrecError as error:
            warn("feedback", "rows do not fit", f"version {group.version}, {group.day}: cannot be recomputed: {error}")
        else:
            again, unknown = (np.concatenate(each) for each in zip(*parts, strict=True))
            metrics["unknown_share"] = float(np.mean(unknown > 0))
            metrics["skew_share"] = float(np.mean(np.abs(again - logged["probability"]) > _ROUNDING))
    profile = read_profile(judged.model.folder / PROFILE)
    with_columns = group.scored[group.scored["columns"].notna()]
    if profile is not None and len(with_columns):
        found_psi = drift(columns_of(with_columns, [column.name for column in judged.columns]), profile)
        metrics |= {f"{DRIFT}{name}": value for name, value in found_psi.items()}
    return Live(group.version, group.day, metrics, found)


def drift(columns: Mapping[str, pa.Array], profile: Profile) -> dict[str, float]:
    """The population stability index of each served column that the profile has; see ``stability_index``.

    A profile names a column as a feature: without letters that features lack.
    """
    known = {name: column for table in profile.tables.values() for name, column in table.columns.items()}
    served = {_feature(name): values for name, values in columns.items()}
    found = {}
    for name, like in known.items():
        values = served.get(_feature(name))
        if values is None or like.kind not in (CATEGORY, NUMBER) or not like.shares:
            continue
        profiler = TableProfiler([Profiled(name, like.kind, counted=like.values is not None)], (), 0)
        profiler.add(pa.table({name: _read(values, like.kind)}))
        shares = profiler.shares(name, like)
        if shares is not None and len(shares) == len(like.shares):
            found[name] = stability_index(shares, like.shares)
    return found


def _read(values: pa.Array, kind: str) -> pa.Array:
    """The values as preprocessing reads them: numbers, or ids as text; of lists, their elements."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        values = values.flatten()
    if kind == CATEGORY:
        return texts(values, DEFAULT_MISSING)
    found, _ = numbers(values, DEFAULT_MISSING)
    return pa.array(found, mask=np.isnan(found))


def _feature(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)
