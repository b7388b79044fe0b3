"""Scores of a whole split, in the order of its records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.progress import progress
from components.records import Records, prefetched
from components.scoring.model import ExportedModel

# Batches.
_READ_AHEAD = 2
_BEGUN = 1  # before one is waited for: a core that is done with one batch's parts goes on with the next's


@dataclass(frozen=True)
class Scores:
    """What a model says about each sample of a split; all arrays have one entry a sample.

    Attributes:
        labels: 0 or 1, int8.
        probabilities: float32 in [0, 1].
        users: the first user feature, None where the data describes no users.
        history_lengths: items in the positive history, None where the data has none.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    users: np.ndarray | None
    history_lengths: np.ndarray | None


def score_split(
    spec: FeatureSpec,
    model: ExportedModel,
    *,
    split: str = "test",
    batch_size: int = 16_384,
    lookups: Mapping[str, np.ndarray] | None = None,
    title: str = "scoring",
) -> Scores:
    """Scores every sample of a split in the order of its files.

    Args:
        spec: the data.
        model: the model.
        split: "train" or "test".
        batch_size: samples scored at a time.
        lookups: feature to an array that turns the data's ids into the model's; see
            :func:`components.scoring.translation.translation`.
        title: what the progress bar says.

    Raises:
        KfrecError: the split has no samples, or a record is corrupt.
    """
    label = spec.channel(Channel.LABEL)[0].name
    user = _first(spec, Channel.USER)
    history = _first(spec, Channel.POSITIVE)
    wanted = dict.fromkeys(name for name in (label, user, history, *model.inputs) if name)
    records = Records(spec, split, features=list(wanted))
    if not records.rows:
        raise KfrecError(f"{spec.folder}: split {split} has no samples; the data is too small to hold some out")
    labels, scores, users, lengths = [], [], [], []
    begun: deque[tuple[np.ndarray | slice, Callable[[], np.ndarray]]] = deque()
    with progress(title, records.rows, "samples") as bar:

        def end_one() -> None:
            order, probabilities = begun.popleft()
            ordered = probabilities()
            scores.append(np.empty_like(ordered))
            scores[-1][order] = ordered
            bar.advance(len(ordered))

        for batch in prefetched(records.batches(batch_size), _READ_AHEAD):
            labels.append(batch[label].astype(np.int8))
            if user:
                users.append(batch[user])
            if history:
                lengths.append(np.count_nonzero(batch[history], axis=1).astype(np.int32))
            # Side by side with their like, as a model leaves out what is padding in all samples that it gets at a time;
            # the longest first, lest they be waited for.
            order = np.argsort(-lengths[-1], kind="stable") if history else slice(None)
            read = {name: batch[name][order] for name in model.inputs}
            begun.append((order, model.begin(_translated(read, lookups or {}))))
            if len(begun) > _BEGUN:
                end_one()
        while begun:
            end_one()
    return Scores(
        np.concatenate(labels),
        np.concatenate(scores),
        np.concatenate(users) if users else None,
        np.concatenate(lengths) if lengths else None,
    )


def _first(spec: FeatureSpec, channel: str) -> str | None:
    features = spec.channels.get(channel, ())
    return features[0] if features else None


def _translated(batch: Mapping[str, np.ndarray], lookups: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: lookups[name][ids] if name in lookups else ids for name, ids in batch.items()}
