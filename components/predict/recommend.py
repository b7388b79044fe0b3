"""Top-k recommendation for a user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.datasets.raw_rows import CANDIDATE, HISTORY, USER, RawColumn
from components.errors import KfrecError
from components.feature_spec import Channel
from components.feature_spec.lookup import IdLookup
from components.predict.formats import rows_file
from components.progress import progress
from components.scoring import RawModel

_ROWS = 16_384


def recommend(
    model: RawModel, user: str, history: Sequence[str | None], candidates: pa.Array, top: int
) -> tuple[pa.Table, int]:
    """The best candidates.

    Args:
        model: the scoring model.
        user: the user's id.
        history: the user's items, oldest first; excluded from the candidates.
        candidates: item ids.
        top: largest number of items to return.

    Returns:
        A table with rank, candidate and model outputs, best first; ties keep the order of the candidates. And the
        number of unknown ids among the user and the history.

    Raises:
        KfrecError: the model's data set has no candidates, or none is left.
    """
    user_column, history_column = (model.column_of(role) for role in (USER, HISTORY))
    item = _candidates(model).name
    seen = {None, *history}
    names = [name for name in dict.fromkeys(candidates.to_pylist()) if name not in seen]
    if not names:
        raise KfrecError(f"user {user}: no candidate is left: all {len(candidates):,} are in the history")
    fixed = {}
    if user_column is not None:
        fixed[user_column.name] = pa.array([user], pa.string())
    if history_column is not None:
        fixed[history_column.name] = pa.array([list(history)], pa.list_(pa.string()))
    scores, unknown, context = [], [], 0
    with progress("scoring candidates", len(names), "items") as bar:
        for start in range(0, len(names), _ROWS):
            part = pa.array(names[start : start + _ROWS], pa.string())
            scored = model.score({**fixed, item: part})
            scores.append(scored.values)
            unknown.append(scored.unknown.get(item, np.zeros(len(part), np.int32)))
            context = sum(int(lacking[0]) for name, lacking in scored.unknown.items() if name != item)
            bar.advance(len(part))
    values = np.concatenate(scores)
    best = np.argsort(-values, kind="stable")[:top]
    score, lacking = model.outputs
    columns = {
        "rank": np.arange(1, len(best) + 1, dtype=np.int32),
        item: pa.array([names[place] for place in best], pa.string()),
        score: values[best],
        lacking: np.concatenate(unknown)[best],
    }
    return pa.table(columns), context


def _candidates(model: RawModel) -> RawColumn:
    found = model.column_of(CANDIDATE)
    if found is None:
        raise KfrecError(
            f"the data set {model.dataset} has no candidates to recommend; score rows of your own with kfrec predict"
        )
    return found


def every_candidate(model: RawModel) -> pa.Array:
    """Every item of the model's vocabulary.

    Raises:
        KfrecError: the model's data set has no candidates.
    """
    _candidates(model)
    spec = model.model.spec
    vocabulary = spec.vocabulary_of(spec.channel(Channel.TARGET)[0].name)
    if vocabulary is None:
        raise KfrecError(f"{spec.folder}: no vocabulary of items; give the items with --candidates")
    return IdLookup(spec, vocabulary).values


def candidates_in(path: Path, model: RawModel) -> pa.Array:
    """The items in a file of rows, in the model's column of candidates.

    Raises:
        KfrecError: there is no such file or column, or it holds no items.
    """
    column = _candidates(model)
    found: list[str] = []
    for batch in rows_file(path).batches(_ROWS):
        if column.name not in batch.schema.names:
            has = ", ".join(batch.schema.names)
            raise KfrecError(f"{path}: has no column {column.name} ({column.help}); it has {has}")
        try:
            found += batch[column.name].cast(pa.string()).to_pylist()
        except pa.ArrowException:
            raise KfrecError(
                f"{path}: column {column.name} is of the type {batch[column.name].type}; give ids"
            ) from None
    if not found:
        raise KfrecError(f"{path}: no rows in it; give a file with a row for each candidate")
    return pa.array(found, pa.string())
