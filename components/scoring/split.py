"""Scores of a whole split, in the order of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.side_tables import side_tables
from components.feature_spec.spec import TEST
from components.models.definition import Explained
from components.progress import progress
from components.scoring.columns import KeptColumns
from components.scoring.model import ExportedModel, joined
from components.scoring.newest import choice_label, is_chosen
from components.tasks import Kept, Scores

READ_AHEAD = 2  # batches
# Explained samples: enough for two digits of shares, and fewer than an evaluation batch.
_EXPLAINED = 1024
T = TypeVar("T")


def score_split(
    spec: FeatureSpec,
    model: ExportedModel,
    keep: Sequence[Kept] = (),
    *,
    batch_size: int = 16_384,
    lookups: Mapping[str, np.ndarray] | None = None,
    title: str = "scoring",
) -> Scores:
    """Scores every sample of the test split in the order of its files.

    Args:
        keep: columns to return with the scores, if present in the data.
        lookups: feature to an array that maps the data's ids to the model's; see
            ``components.scoring.translation.translation``.

    Raises:
        KfrecError: the split has no samples, or a record is corrupt.
    """
    from components.records import Records, prefetched  # lazy: imports Numba

    columns = KeptColumns(spec, keep)
    wanted = dict.fromkeys((*(target.name for target in spec.targets), *columns.features, *model.inputs))
    records = Records(spec, TEST, features=list(wanted))
    if not records.rows:
        raise KfrecError(f"{spec.folder}: split test has no samples; the data is too small for a held-out split")
    targets, scores = [], []

    def begin(batch: Mapping[str, np.ndarray]) -> tuple[np.ndarray | slice, Callable[[], dict[str, np.ndarray]]]:
        targets.append(targets_of(spec, batch))
        columns.add(batch)
        # Sorted by length, because a model trims padding common to a chunk; longest first, so that no core waits for
        # them at the end.
        lengths = columns.newest_count()
        order = slice(None) if lengths is None else np.argsort(-lengths, kind="stable")
        read = {name: batch[name][order] for name in model.inputs}
        return order, model.begin(translated(read, lookups or {}))

    with progress(title, records.rows, "samples") as bar:
        for order, outputs in behind(map(begin, prefetched(records.batches(batch_size), READ_AHEAD))):
            scores.append({name: in_place(values, order) for name, values in outputs().items()})
            bar.advance(len(next(iter(scores[-1].values()))))
    kept = columns.arrays()
    return Scores(joined(targets), joined(scores), kept, columns.names(kept), tables=side_tables(spec.folder))


def explained(spec: FeatureSpec, model: ExportedModel, lookups: Mapping[str, np.ndarray]) -> Explained | None:
    """A model's explanation of its outputs for the first test samples; None if it explains nothing.

    Args:
        lookups: as for ``score_split``.
    """
    from components.records import Records  # with Numba, as in score_split

    if model.explain is None:
        return None
    samples = next(Records(spec, TEST, features=list(spec.sources[TEST].features)).batches(_EXPLAINED))
    values = model.explained(translated({name: samples[name] for name in model.inputs}, lookups))
    chosen = is_chosen(choice_label(spec), samples, len(samples[model.inputs[0]]))
    return Explained(spec, samples, chosen, values)


def targets_of(spec: FeatureSpec, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The targets of a batch, as ``components.tasks.Scores`` has them."""
    return {
        target.name: batch[target.name].astype(np.int8) if target.is_bool else batch[target.name]
        for target in spec.targets
    }


def in_place(ordered: np.ndarray, order: np.ndarray | slice) -> np.ndarray:
    """The values of samples in another order, back in their own."""
    values = np.empty_like(ordered)
    values[order] = ordered
    return values


def behind(begun: Iterable[T], ahead: int = 1) -> Iterator[T]:
    """Yields each batch once the next ones have begun: an idle core continues with their chunks.

    Args:
        begun: begins a batch when it is asked for it.
        ahead: number of the next ones; a batch of one chunk keeps one core busy.
    """
    held: list[T] = []
    for batch in begun:
        held.append(batch)
        if len(held) > ahead:
            yield held.pop(0)
    yield from held


def translated(batch: Mapping[str, np.ndarray], lookups: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A batch with ids translated to the model's."""
    return {name: lookups[name][ids] if name in lookups else ids for name, ids in batch.items()}
