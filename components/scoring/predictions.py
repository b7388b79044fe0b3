"""predictions.parquet: ids, targets and outputs of each test sample, in the order of the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.spec import TEST
from components.feature_spec.values import read_values
from components.scoring.model import as_column
from components.tasks import Scores

FILENAME = "predictions.parquet"
# Key of the file's metadata: which columns are targets, outputs and kept columns.
_ROLES = b"kfrec.columns"
_AT_ONCE = 65_536  # samples
_RAW = (Channel.USER, Channel.TARGET, Channel.KIND)


def write_predictions(path: Path, scores: Scores, raw: Mapping[str, pa.Array] | None = None) -> None:
    """Writes a column for each target, output and kept column.

    Args:
        raw: further columns for people, by name, which ``read_predictions`` leaves out; those of a name that is taken
            are, too.

    Raises:
        KfrecError: two of them have one name.
    """
    roles = {"targets": scores.targets, "outputs": scores.outputs, "kept": scores.kept}
    columns: dict[str, pa.Array] = {}
    for role, arrays in roles.items():
        for name, values in arrays.items():
            if name in columns:
                raise KfrecError(
                    f"{path.name}: two columns would be called {name}, among {role} and before; rename the feature, or "
                    "the output or kept column of the task"
                )
            columns[name] = as_column(values)
    columns = {**(raw or {}), **columns}
    noted = json.dumps({role: list(arrays) for role, arrays in roles.items()})
    pq.write_table(pa.table(columns).replace_schema_metadata({_ROLES: noted}), path)


def read_predictions(path: Path, tables: Mapping[str, Path] | None = None) -> Scores:
    """Reads the file of ``write_predictions``.

    Args:
        tables: side tables of the data, for ``Scores.tables``.

    Raises:
        KfrecError: the file cannot be read.
    """
    try:
        table = pq.read_table(path)
        roles: Mapping[str, list[str]] = json.loads((table.schema.metadata or {})[_ROLES])
        arrays = {role: {name: _array(table[name]) for name in names} for role, names in roles.items()}
        return Scores(arrays["targets"], arrays["outputs"], arrays["kept"], tables=tables or {})
    except KeyError:
        raise KfrecError(
            f"{path}: does not say what its columns are, as evaluations of an earlier kfrec; evaluate again"
        ) from None
    except (OSError, TypeError, ValueError, pa.ArrowInvalid) as error:
        raise KfrecError(f"{path}: not the predictions of an evaluation ({error}); evaluate again") from None


def _array(column: pa.ChunkedArray) -> np.ndarray:
    shape, values = [len(column)], column.combine_chunks()
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False).reshape(shape)


def raw_ids(spec: FeatureSpec) -> dict[str, pa.Array]:
    """User, candidate and kind of event of each sample: feature to the values of its ids, ``[n]`` texts, in the order
    of the records.

    Features without a vocabulary are left out. A value that the vocabulary lacks is null.

    Raises:
        KfrecError: a record or a vocabulary is damaged.
    """
    from components.records import Records  # with Numba, as in score_split

    held = spec.sources[TEST].features
    features = [name for channel in _RAW for name in spec.channels.get(channel, ())]
    vocabularies = {name: vocabulary for name in features if name in held and (vocabulary := spec.vocabulary_of(name))}
    if not vocabularies:
        return {}
    batches = list(Records(spec, TEST, list(vocabularies)).batches(_AT_ONCE))
    found = {}
    for name, vocabulary in vocabularies.items():
        known, values = read_values(spec, vocabulary)
        ids, rows = np.unique(np.concatenate([batch[name] for batch in batches]), return_inverse=True)
        order = np.argsort(known)
        places = np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)
        is_known = known[order[places]] == ids if len(known) else np.zeros(len(ids), bool)
        texts = values.take(pa.array(order[places], mask=~is_known)) if len(known) else pa.nulls(len(ids), pa.string())
        found[name] = texts.take(pa.array(rows))
    return found
