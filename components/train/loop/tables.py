"""Builds the model of a training with its embedding tables placed on ranks and devices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models import Model, ModelDefinition
from components.models.model import require_interface
from components.models.names import by_name
from components.models.tables.creation import PlacedTables, Survey, tables_made_by
from components.models.tables.placement import RANK, REPLICATED, Placement
from components.models.tables.plan import AUTO, Requirements, plan_tables, read_named
from components.parameters import bytes_of
from components.train.loop.ranks import Ranks
from components.train.loop.runtime import available_bytes, require_memory


def table_memory(parameters: Any, ranks: Ranks) -> float | None:
    """A rank's bytes for tables, equal on every rank; None for no limit. A collective operation."""
    size = bytes_of(parameters.table_memory)
    free = 0.75 * available_bytes() / ranks.local_size
    least = min(ranks.gather(free)) if ranks.size > 1 else None
    if size:
        return size
    return None if tf.config.get_visible_devices("GPU") else least or None


def build_model(definition: ModelDefinition, parameters: Any, spec: FeatureSpec, seed: int) -> Model:
    """Builds a model with fresh weights, which depend on the seed alone.

    Args:
        parameters: of the loop, and of the model.

    Raises:
        KfrecError: the channels of ``spec`` do not fit the model, or it lacks what a model has.
    """
    built = definition.build(parameters, spec, seed, parameters.amp)
    require_interface(f"model {definition.name}", built, spec)
    return built


def build_placed(
    definition: ModelDefinition, parameters: Any, spec: FeatureSpec, ranks: Ranks, seed: int, memory: float | None
) -> Model:
    """Builds a model with fresh weights, with this rank's shards of sharded tables.

    Args:
        memory: see ``table_memory``.

    Raises:
        KfrecError: the tables do not fit into memory, or cannot be placed as requested; or two variables of the model
            have the same name.
    """
    survey, copies = surveyed(definition, parameters, spec)
    named = read_named(parameters.placed_tables)
    if ranks.size == 1 and not tf.config.get_visible_devices("GPU"):
        require_memory(definition.title, round(copies * survey.bytes))
    if ranks.size == 1 and not named and memory is None:
        return build_model(definition, parameters, spec, seed)
    kind = REPLICATED if parameters.xla and parameters.table_placement == AUTO else parameters.table_placement
    requirements = Requirements(kind, named, memory)
    placements = plan_tables(definition.title, survey.requested, ranks.size, requirements, copies)
    line = _sharded_tables(placements, ranks.size)
    if line and ranks.rank == 0:
        print(line, flush=True)
    with tables_made_by(PlacedTables(placements, ranks)):
        return build_model(definition, parameters, spec, seed)


def surveyed(definition: ModelDefinition, parameters: Any, spec: FeatureSpec) -> tuple[Survey, float]:
    """The tables of a model, without allocating them.

    Returns:
        The tables; and the ratio of the bytes of tables, optimizer state and averages to those of the tables alone.
    """
    with tables_made_by(survey := Survey()):
        empty = build_model(definition, parameters, spec, seed=0)
    total = survey.bytes * (2.0 if parameters.average_decay else 1.0)
    by_name(empty.variables, f"model {definition.name}")
    for group in definition.optimizers(parameters, empty, 1):
        tables = [variable for variable in group.variables if variable.ref() in survey.sizes]
        group.optimizer.build(tables)
        # A table's state has its rows, 0 in a survey; other state, such as a step counter, is small.
        state = [each for each in getattr(group.optimizer, "variables", ()) if 0 in each.shape]
        total += sum(survey.sizes[table.ref()] for table in tables) * len(state) / max(len(tables), 1)
    return survey, total / survey.bytes if survey.bytes else 1.0


def _sharded_tables(placements: dict[str, Placement], ranks: int) -> str:
    """One line that names the sharded tables; empty if there are none."""
    sharded = {name: placement for name, placement in placements.items() if placement.kind != REPLICATED}
    if not sharded:
        return ""
    counts = Counter(placement.kind for placement in sharded.values())
    kinds = ", ".join(
        f"{count} by {kind}" if kind != RANK else f"{count} on one rank each" for kind, count in counts.items()
    )
    features = list(dict.fromkeys(name.rpartition("/")[2] for name in sharded))  # a feature may have two tables
    names = ", ".join(features[:5]) + (", ..." if len(features) > 5 else "")
    return f"{len(sharded)} of {len(placements)} embedding tables are sharded over {ranks} ranks ({kinds}): {names}"
