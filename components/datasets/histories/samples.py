"""The NVTabular operator that cuts users' histories into samples, and its workflow for each split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from components.datasets.histories.negatives import Negatives
from components.datasets.histories.parameters import WINDOWS
from components.datasets.histories.sorting import CONTEXT, NEW, TARGET
from components.datasets.histories.splits import TEST, TRAIN, VALIDATION, Cuts, Events, Targets
from components.workflows.nvtabular_quiet import ColumnSchema, Schema, Workflow, list_column, ops

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews

# The streams of random draws.
_STREAMS = {TRAIN: 0, TEST: 1, VALIDATION: 2}
_LISTS = {"item_list": np.int32, "cat_list": np.int32, "time_list": np.int64, "flags_list": np.int8}
HISTORIES = Schema(
    [
        ColumnSchema("user_key", dtype=np.int64),
        ColumnSchema("uid", dtype=np.int32),
        *(ColumnSchema(name, dtype=dtype, dims=(None, (0, None))) for name, dtype in _LISTS.items()),
    ]
)


def samples_of(split: str, parameters: PreprocessReviews, cuts: Cuts | None, pool: Path) -> Workflow:
    """The workflow from encoded histories to the samples of a split.

    Args:
        split: TRAIN, VALIDATION or TEST.
        cuts: of a split by time; None for the last item of each user.
    """
    before = {TRAIN: cuts.train_end, VALIDATION: cuts.test_begin, TEST: None}[split] if cuts else None
    # A window stands for all targets in it only if each of its items is one.
    windows = split == TRAIN and parameters.training_targets == WINDOWS and parameters.learns_histories
    window = parameters.max_sequence_length if windows else 1
    targets = Targets(
        split, cuts, parameters.shortest_sequence_for_training, parameters.excludes_seen, window, parameters.refitting
    )
    negatives = Negatives(
        pool,
        before,
        parameters.window,
        parameters.negative_sequence_length,
        parameters.excludes_seen,
        parameters.seed,
        _STREAMS[split],
    )
    cut = CutSamples(targets, negatives, parameters.max_sequence_length, parameters.has_negatives)
    return Workflow(HISTORIES.column_names >> cut).fit_schema(HISTORIES)


class CutSamples(ops.Operator):
    """Two adjacent rows per target in a user's history, the target and a negative, with the window of items before it.

    Without negatives there is one row, whose negative history is padding.

    In: the schema ``HISTORIES``. Out: label, uid, item, cat (the target or the negative), item_sequence, cat_sequence
    (exactly ``length`` ids, oldest first, 0 where the history is shorter), neg_item_sequence, neg_cat_sequence.
    """

    def __init__(self, targets: Targets, negatives: Negatives, length: int, has_negatives: bool) -> None:
        super().__init__()
        self.targets, self.negatives, self.length = targets, negatives, length
        self.has_negatives = has_negatives

    def transform(self, col_selector: Any, df: pd.DataFrame) -> pd.DataFrame:
        items, offsets = _flat_lists(df["item_list"])
        cats, times, flags = (_flat_lists(df[name])[0] for name in ("cat_list", "time_list", "flags_list"))
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        context = np.flatnonzero(flags & CONTEXT)
        # The items of all histories before each review, of its user and of those before.
        before = np.searchsorted(context, np.arange(len(items)))
        position, history = (places - places[offsets[owner]] for places in (np.arange(len(items)), before))
        events = Events(offsets, owner, position, history, times, flags & NEW > 0, flags & TARGET > 0)
        chosen = np.flatnonzero(self.targets.of(events))
        out = pd.DataFrame()
        if self.has_negatives:
            drawn = self.negatives.draw(events, items, df["user_key"].values, chosen)
            chosen = chosen[drawn.exists]
            rows = np.repeat(chosen, 2)
            out["label"] = np.tile(np.array([1, 0], np.int8), len(chosen))
            out["item"], out["cat"] = (
                np.stack([positive[chosen], negative[drawn.exists]], axis=1).ravel()
                for positive, negative in ((items, drawn.item), (cats, drawn.cat))
            )
            histories = [each[drawn.exists].reshape(-1, self.negatives.length) for each in (drawn.items, drawn.cats)]
        else:
            rows = chosen
            out["label"] = np.ones(len(rows), np.int8)
            out["item"], out["cat"] = items[rows], cats[rows]
            histories = [np.zeros((len(rows), self.negatives.length), np.int32)] * 2
        out["uid"] = df["uid"].values[owner[rows]]
        # Zeros before each user's items pad the windows at the start of a history.
        spread = np.arange(len(context)) + self.length * (owner[context] + 1)
        for name, values in (("item_sequence", items), ("cat_sequence", cats)):
            padded = np.zeros(len(context) + self.length * (len(offsets) - 1), np.int32)
            padded[spread] = values[context]
            out[name] = list_column(sliding_window_view(padded, self.length)[before[rows] + self.length * owner[rows]])
        for name, values in zip(("neg_item_sequence", "neg_cat_sequence"), histories, strict=True):
            out[name] = list_column(values)
        return out

    def compute_output_schema(self, input_schema: Any, col_selector: Any, prev_output_schema: Any = None) -> Schema:
        return Schema(
            [
                ColumnSchema("label", dtype=np.int8),
                *(ColumnSchema(name, dtype=np.int32) for name in ("uid", "item", "cat")),
                *_sequences(self.length, "item_sequence", "cat_sequence"),
                *_sequences(self.negatives.length, "neg_item_sequence", "neg_cat_sequence"),
            ]
        )


def _sequences(length: int, *names: str) -> list[ColumnSchema]:
    return [ColumnSchema(name, dtype=np.int32, dims=(None, length)) for name in names]


def _flat_lists(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Values and offsets, int64 [rows + 1], of a list column; list i is values[offsets[i]:offsets[i + 1]]."""
    offsets = np.zeros(len(column) + 1, np.int64)
    offsets[1:] = np.cumsum(np.fromiter(map(len, column), np.int64, len(column)))
    return np.concatenate([np.zeros(0, np.int32), *column]), offsets
