"""The recommend step: raw events in, a list for every user out, into a file, object storage or a database."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.artifacts import open_input, publishing
from components.errors import KfrecError
from components.inference.delivery import is_database
from components.inference.events import events_in, list_new_items, never_again, reads_events
from components.inference.files import candidates_in, exclusions_in
from components.inference.formats import format_of, has_format
from components.inference.history import without_context
from components.inference.model import NamedModel, named_model
from components.inference.recommend import Delivery, Exclusions, write_lists
from components.scoring import RawModel
from components.scoring.catalogue import Catalogue
from components.secrets import without_password
from components.served_rows.batch import batch_log
from components.steps.catalog import RecommendParameters
from components.steps.recorded import recorded
from components.storage import Retry, fetch_file, is_uri, open_store

NOTE, LEFT_OUT = "recommendation.json", "left_out.csv"
_RETRY = Retry(5)


def run(parameters: RecommendParameters, *, raw: Path, lists: Path) -> Mapping[str, Any]:
    """Lists for every user with an event in ``raw``; writes the folder ``lists``, and delivers them.

    Returns:
        ``users`` with a list, ``items`` listed, users ``left_out``, and these in a line, as ``summary``.

    Raises:
        KfrecError: no such model, one that reads other raw files, a file that does not fit, or a delivery that fails.
    """
    output, opened = parameters.deliver_to, open_input(raw, steps=("download",))
    into_database = is_database(output) and not has_format(output)
    name = f"lists{format_of(output) if output and not into_database else '.parquet'}"
    with (
        named_model(parameters.model_version) as named,
        publishing(lists, step="recommend", inputs={"raw": opened}, parameters=recorded(parameters)) as staging,
        batch_log(parameters.log, named.name, named.registered) as log,
    ):
        _require_fitting(named, str(opened.parameters.get("dataset", "")), parameters)
        candidates = _local(parameters.candidates, staging.scratch / "candidates")
        exclude = _local(parameters.exclude, staging.scratch / "exclude")
        at, kinds = time.time(), parameters.never_again
        pairs = [exclusions_in(exclude, named.raw)] if exclude else []
        if kinds:
            pairs.append(never_again(opened, named.raw, kinds, "parameter never_again"))

        def of_model(model: RawModel) -> Catalogue:
            return Catalogue(model, *candidates_in(candidates, model, at)) if candidates else Catalogue(model)

        catalogue: Catalogue = named.pair.catalogue(of_model) if named.pair else of_model(named.raw)
        list_new_items(catalogue, opened)
        to = output if into_database else str(staging.path / name)
        counts = write_lists(
            catalogue,
            without_context(events_in(opened, named.raw, None)),
            parameters.top,
            Delivery(to, [], named.name, named.version, parameters.table),
            keep_seen={"true": True, "false": False}.get(parameters.keep_seen),
            exclusions=Exclusions(pairs) if pairs else None,
            per_category=parameters.per_category,
            left_out=staging.path / LEFT_OUT,
            log=log,
        )
        notes = counts.lines(catalogue)
        note = {
            "model": named.description,
            "users": counts.users,
            "items": counts.items,
            **counts.figures,
            "notes": notes,
        }
        (staging.path / NOTE).write_text(json.dumps(note, indent=2) + "\n")
        staging.rows |= {"users": counts.users, "items": counts.items, "left_out": counts.empty}
    if output and not into_database:
        folder, _, file = output.rpartition("/")
        store = open_store(folder or ("/" if output.startswith("/") else "."))
        _RETRY.call(output, store.write, file, lists / name)
    where = f" in {without_password(output)}" if output else ""
    summary = f"{named.description}: {counts.items:,} items for {counts.users:,} users{where}"
    return {**staging.rows, "summary": "; ".join([summary, *notes])}


def _require_fitting(named: NamedModel, dataset: str, parameters: RecommendParameters) -> None:
    """Checks that the model reads the raw files, and retrieves enough."""
    if named.raw.dataset != dataset or not reads_events(named.raw):
        raise KfrecError(
            f"parameter model_version={parameters.model_version}: its lists come from raw files of "
            f"{named.raw.dataset}, and these are of {dataset or 'an unknown data set'}; name a model of {dataset}, or "
            f"the data set {named.raw.dataset}"
            if named.raw.dataset != dataset
            else f"parameter model_version={parameters.model_version}: the model cannot read raw files of {dataset}; "
            "train it again, from raw files of users' histories"
        )
    if named.pair and parameters.top > named.pair.retrieve:
        raise KfrecError(f"parameter top={parameters.top}: the pair retrieves {named.pair.retrieve}; list fewer")


def _local(location: str, scratch: Path) -> Path | None:
    """A file that a parameter names, fetched below ``scratch`` if it is remote; None without one.

    Raises:
        KfrecError: there is no such file, or it has an unknown format.
    """
    if not location:
        return None
    suffix = format_of(location)
    if not is_uri(location):
        if not Path(location).is_file():
            raise KfrecError(f"{location}: no such file; check the path")
        return Path(location)
    folder, _, name = location.rpartition("/")
    store, target = open_store(folder), scratch.with_suffix(suffix)
    fetch_file(store, _RETRY, _RETRY.call(location, store.stat, name), target)
    return target
