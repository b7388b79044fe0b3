"""The nights of a backfill: the data versions that ``--from`` and ``--until`` name, each of which a run is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components import registry
from components.errors import KfrecError
from components.find.versions import data_versions, natural_order
from components.secrets import without_password
from pipelines.defaults import DECIDED, Pipeline

_UNTIL = "data_until"


def nights(pipeline: Pipeline, values: Mapping[str, Any], first: str | None, last: str | None) -> list[dict[str, Any]]:
    """The values of a pipeline, or of its run for each data version from ``first`` to ``last``, oldest first.

    A run ends without a training if a model was trained on its version already, or on a later one: ``find`` decides.

    Args:
        first, last: names of data versions, or parts of the same order, such as days; None is the oldest, the newest.
            Without either, the values are those of one run.

    Raises:
        KfrecError: the pipeline looks for no data, the prefix cannot be read, or it has no such version.
    """
    if first is None and last is None:
        return [dict(values)]
    if pipeline.kind not in DECIDED:
        raise KfrecError(f"--from and --until are of data versions; give --pipeline {' or '.join(DECIDED)} with them")
    if values.get(_UNTIL):
        raise KfrecError(f"--from and --until set {_UNTIL} for each run; leave --set {_UNTIL}={values[_UNTIL]} out")
    prefix = str(values.get("data_prefix", ""))
    versions, passed_over = data_versions(prefix, registry.dataset(pipeline.choices["dataset"]).raw)
    for line in passed_over:
        print(line, flush=True)
    names = [version.name for version in versions]
    chosen = [name for name in names if _is_within(name, first, last)]
    if not chosen:
        between = " ".join(word for name, end in (("from", first), ("until", last)) if end for word in (name, end))
        raise KfrecError(f"{without_password(prefix)}: no data version {between}; there are {names[0]} to {names[-1]}")
    print(f"{len(chosen)} data versions, oldest first: {', '.join(chosen)}", flush=True)
    return [{**values, _UNTIL: name} for name in chosen]


def _is_within(name: str, first: str | None, last: str | None) -> bool:
    order = natural_order(name)
    return (not first or natural_order(first) <= order) and (not last or order <= natural_order(last))
