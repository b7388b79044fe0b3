"""Rows of embedding tables whose id stands for another value than in the training that this one continues.

Such a row starts afresh: with the weights that the initializer gave it, and the initial state of the optimizer. One set
of rows holds for a table and for everything that the optimizer keeps of it, on every rank and in every placement. The
weights of an item's row may be the mean of its category's instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from components import registry
from components.datasets.raw_rows import Categorized
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, Vocabulary
from components.feature_spec.values import read_values
from components.models import Model
from components.models.names import name_of
from components.models.tables.placement import REPLICATED, sharding_of
from components.scoring.raw import dataset_of
from components.scoring.translation import require_exact_vocabularies
from components.steps.training_parameters import FRESH, OF_CATEGORY

# Rows by the name of their variable, ascending.
Rows = Mapping[str, np.ndarray]


def changed_rows(model: Model, spec: FeatureSpec, earlier: FeatureSpec) -> dict[str, np.ndarray]:
    """The rows whose id has another value than in the earlier data, or a value in one of them alone.

    Features without a vocabulary on both sides have none.

    Raises:
        KfrecError: a vocabulary is missing or damaged, or tokens have other ids.
    """
    require_exact_vocabularies(spec, earlier)
    rows: dict[str, list[np.ndarray]] = {}
    found: dict[tuple[Vocabulary, Vocabulary], np.ndarray] = {}
    for name, table in model.tables.items():
        feature = table.feature or name
        ours, theirs = spec.vocabulary_of(feature), earlier.vocabulary_of(feature)
        if ours is None or theirs is None:
            continue
        if (ours, theirs) not in found:
            found[ours, theirs] = _changed_ids(spec, ours, earlier, theirs)
        ids = found[ours, theirs]
        if len(ids := ids[ids < table.rows]):
            rows.setdefault(name_of(table.variable), []).append(table.begin + ids)
    return {name: np.unique(np.concatenate(each)) for name, each in rows.items()}


def _changed_ids(spec: FeatureSpec, ours: Vocabulary, earlier: FeatureSpec, theirs: Vocabulary) -> np.ndarray:
    (our_ids, our_values), (their_ids, their_values) = read_values(spec, ours), read_values(earlier, theirs)
    size = 1 + max(int(our_ids.max(initial=0)), int(their_ids.max(initial=0)))
    mine, other = _by_id(our_ids, our_values, size), _by_id(their_ids, their_values, size)
    equal = pc.or_(pc.fill_null(pc.equal(mine, other), False), pc.and_(pc.is_null(mine), pc.is_null(other)))
    return np.flatnonzero(~equal.to_numpy(zero_copy_only=False))


def _by_id(ids: np.ndarray, values: pa.Array, size: int) -> pa.Array:
    """The value of each id below ``size``, null where it has none."""
    positions = np.full(size, -1)
    positions[ids] = np.arange(len(ids))
    return values.take(pa.array(positions, mask=positions < 0))


def start_from_categories(model: Model, spec: FeatureSpec, afresh: Rows) -> None:
    """Gives rows of items that start afresh the mean of the other items of their category, if there is any.

    Raises:
        KfrecError: the data have no categories of items, or ranks share the table of items.
    """
    remedy = f"set admitted_rows={FRESH}"
    target = next(iter(spec.channels.get(Channel.TARGET, ())), "")
    table, vocabulary = model.tables.get(target), spec.vocabulary_of(target) if target else None
    encoder = registry.dataset(name).raw_rows if (name := dataset_of(spec)) else None
    rows = encoder(spec, [target]) if encoder and table and vocabulary else None
    ids, values = read_values(spec, vocabulary) if vocabulary else (np.zeros(0, np.int64), pa.array([], pa.string()))
    categories = rows.categories(values) if isinstance(rows, Categorized) else None
    if table is None or categories is None:
        raise KfrecError(f"parameter admitted_rows={OF_CATEGORY}: the data have no categories of items; {remedy}")
    if sharding_of(table.variable) is not None:
        raise KfrecError(
            f"parameter admitted_rows={OF_CATEGORY}: ranks share the table {name_of(table.variable)}, so that none "
            f"has all items of a category; {remedy}, or table_placement={REPLICATED}"
        )
    places = table.begin + ids
    is_new = np.isin(places, afresh.get(name_of(table.variable), ()))
    if not is_new.any():
        return
    found, category = np.unique(categories, return_inverse=True)
    sums = np.zeros((len(found), table.variable.shape[1]))
    np.add.at(sums, category[~is_new], tf.gather(table.variable, places[~is_new]).numpy())
    counts = np.bincount(category[~is_new], minlength=len(found))
    is_new &= counts[category] > 0
    means = (sums / np.maximum(counts, 1)[:, np.newaxis]).astype(np.float32)[category[is_new]]
    table.variable.scatter_update(tf.IndexedSlices(means, places[is_new]))


@contextmanager
def starting_afresh(rows: Rows, variables: Mapping[str, tf.Variable], model: str) -> Iterator[None]:
    """Gives rows back what they had, once the block has restored the variables.

    Args:
        rows: see ``changed_rows``.
        variables: weights as ``<model>/<name>``, and what an optimizer keeps of them as ``<part>/<name>/<slot>``.
    """
    positions: dict[str, np.ndarray] = {}
    for path, variable in variables.items():
        part, _, name = path.partition("/")
        table = name if part == model else name.rpartition("/")[0]
        if table in rows:
            positions[path] = _own(variable, rows[table])
    fresh = {path: tf.gather(variables[path], held) for path, held in positions.items()}
    yield
    for path, held in positions.items():
        variables[path].scatter_update(tf.IndexedSlices(fresh[path], held))


def _own(variable: tf.Variable, rows: np.ndarray) -> np.ndarray:
    """The positions of these rows in this rank's part of a table."""
    sharding = sharding_of(variable)
    return rows if sharding is None else sharding.mine.find(rows)[1]
