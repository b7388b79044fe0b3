"""The NVTabular operator that cuts users' histories into samples, and its workflow for each split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib.stride_tricks import sliding_window_view

from components.datasets.histories.kinds import KIND
from components.datasets.histories.negatives import Negatives
from components.datasets.histories.sorting import CONTEXT, NEW, TARGET, first_of_day
from components.datasets.histories.splits import TEST, TRAIN, VALIDATION, Cuts, Events, Night, Targets
from components.feature_spec.event_columns import EventColumn
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN
from components.workflows.nvtabular_quiet import ColumnSchema, Schema, Workflow, list_column, ops

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews

# Columns of how much targets count.
WEIGHT, WEIGHTS = "weight", "weight_sequence"
# The streams of random draws.
_STREAMS = {TRAIN: 0, TEST: 1, VALIDATION: 2}
_LISTS = {"item_list": np.int32, "cat_list": np.int32, "time_list": np.int64, "flags_list": np.int8}


def histories_schema(columns: Sequence[EventColumn], weighs_targets: bool, has_kinds: bool) -> Schema:
    """The schema of encoded histories."""
    lists: dict[str, Any] = _LISTS | {f"{column.field}_list": np.int32 for column in columns}
    if weighs_targets:
        lists["weight_list"] = np.float32
    if has_kinds:
        lists[f"{KIND}_list"] = np.int8
    return Schema(
        [
            ColumnSchema("user_key", dtype=np.int64),
            ColumnSchema("uid", dtype=np.int32),
            *(ColumnSchema(name, dtype=dtype, dims=(None, (0, None))) for name, dtype in lists.items()),
        ]
    )


def samples_of(
    split: str,
    parameters: PreprocessReviews,
    cuts: Cuts | None,
    pool: Path,
    has_kinds: bool,
    night: Night | None = None,
) -> Workflow:
    """The workflow from encoded histories to the samples of a split.

    Args:
        split: TRAIN, VALIDATION or TEST.
        cuts: of a split by time; None for the last items of each user.
        has_kinds: whether the histories have the kinds of events, and the samples those of their targets.
        night: what trains; None is everything.
    """
    before = {TRAIN: cuts.train_end, VALIDATION: cuts.test_begin, TEST: None}[split] if cuts else None
    windows = split == TRAIN and parameters.has_windows
    targets = targets_of(split, parameters, cuts)
    negatives = Negatives(
        pool,
        before,
        parameters.window,
        parameters.negative_sequence_length,
        parameters.excludes_seen,
        parameters.seed,
        _STREAMS[split],
    )
    cut = CutSamples(
        targets,
        negatives,
        parameters.max_sequence_length,
        parameters.has_negatives,
        # Windows are whole, and tell the days of their items.
        ends_with_day=parameters.ends_with_day and not windows,
        has_days=parameters.has_days,
        columns=parameters.event_columns,
        weight=weight_column(parameters, night),
        has_kinds=has_kinds,
        night=night if split == TRAIN else None,
    )
    schema = histories_schema(parameters.event_columns, parameters.weighs_targets, has_kinds)
    return Workflow(schema.column_names >> cut).fit_schema(schema)


def targets_of(split: str, parameters: PreprocessReviews, cuts: Cuts | None) -> Targets:
    """Which reviews are targets of a split; see ``samples_of``."""
    windows = split == TRAIN and parameters.has_windows
    return Targets(
        split,
        cuts,
        parameters.shortest_sequence_for_training,
        parameters.excludes_seen,
        parameters.max_sequence_length if windows else 1,
        parameters.refitting,
        parameters.held_out,
        parameters.holds_out_validation,
    )


def with_targets(histories: pa.Table, targets: Targets, night: Night | None) -> pa.Table:
    """The users who may have a target, of encoded histories; the others' would be cut into no sample.

    Args:
        night: what trains, of the split TRAIN; None is everything.
    """
    if targets.cuts is None or (targets.split == TRAIN and night is None):
        return histories
    times, flags = (histories[name].combine_chunks() for name in ("time_list", "flags_list"))
    owner = np.repeat(np.arange(len(histories)), times.value_lengths().to_numpy())
    times, flags = times.flatten().to_numpy(), flags.flatten().to_numpy()
    chosen = (flags & TARGET > 0) & targets.within(times)
    if night is not None:
        chosen &= night.trains(times, histories["user_key"].to_numpy()[owner])
    return histories.filter(pa.array(np.bincount(owner[chosen], minlength=len(histories)) > 0))


def left_out_of(histories: Path, targets: Targets, ends_with_day: bool) -> np.ndarray:
    """``Targets.left_out`` of one partition of encoded histories."""
    lists = pq.read_table(histories, columns=["item_list", "time_list", "flags_list"]).to_pandas()
    items, offsets = _flat_lists(lists["item_list"])
    times, flags = (_flat_lists(lists[name])[0] for name in ("time_list", "flags_list"))
    return targets.left_out(_events(items, times, flags, offsets, ends_with_day)[0])


def _events(
    items: np.ndarray, times: np.ndarray, flags: np.ndarray, offsets: np.ndarray, ends_with_day: bool
) -> tuple[Events, np.ndarray, np.ndarray]:
    """Encoded reviews, user by user.

    Returns:
        The events; the places of those that are in histories, int64 ``[m]``; and for each event how many of these come
        before it, of its user and of those before, int64 ``[n]``.
    """
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    context = np.flatnonzero(flags & CONTEXT)
    before = np.searchsorted(context, np.arange(len(items)))
    if ends_with_day:
        before = before[first_of_day(owner, times)]
    position, history = (places - places[offsets[owner]] for places in (np.arange(len(items)), before))
    is_new, is_target, is_known = flags & NEW > 0, flags & TARGET > 0, items != NVTABULAR_UNKNOWN
    return Events(offsets, owner, position, history, times, is_new, is_target, is_known), context, before


def weight_column(parameters: PreprocessReviews, night: Night | None) -> str:
    """The samples' column of weights: of targets or, with windows, of the histories' items, too; empty for none.

    The items of a window that do not train on a night weigh nothing.
    """
    if parameters.has_windows:
        return WEIGHTS if parameters.weighs_targets or night is not None else ""
    return WEIGHT if parameters.weighs_targets else ""


class CutSamples(ops.Operator):
    """Two adjacent rows per target in a user's history, the target and a negative, with the window of items before it.

    Without negatives there is one row, whose negative history is padding.

    In: the schema ``histories_schema``. Out: label, uid, item, cat (the target or the negative), item_sequence,
    cat_sequence (exactly ``length`` ids, oldest first, 0 where the history is shorter), neg_item_sequence,
    neg_cat_sequence; with ``has_days`` also days_sequence; with columns of events, these of the history and, if they
    are known, of the target, which the negative shares.

    Args:
        ends_with_day: whether a history ends with the day before its target.
        has_days: whether to write for each item of a history how many days of the user it is before the target, days
            without an event not counted; what pads is a day before the first item. Samples whose histories end with a
            day have 0.
        columns: of the events.
        weight: WEIGHT to write how much each target counts, WEIGHTS for the items of its history before it, too; empty
            for neither. Without weights in the input each counts 1.
        has_kinds: whether to write the kind of the target's event, which the negative shares.
        night: what trains; None is everything.
    """

    def __init__(
        self,
        targets: Targets,
        negatives: Negatives,
        length: int,
        has_negatives: bool,
        ends_with_day: bool,
        has_days: bool,
        columns: Sequence[EventColumn],
        weight: str,
        has_kinds: bool,
        night: Night | None,
    ) -> None:
        super().__init__()
        self.columns, self.weight, self.has_kinds, self.night = tuple(columns), weight, has_kinds, night
        self.targets, self.negatives, self.length = targets, negatives, length
        self.has_negatives, self.ends_with_day, self.has_days = has_negatives, ends_with_day, has_days

    def transform(self, col_selector: Any, df: pd.DataFrame) -> pd.DataFrame:
        items, offsets = _flat_lists(df["item_list"])
        cats, times, flags = (_flat_lists(df[name])[0] for name in ("cat_list", "time_list", "flags_list"))
        events, context, before = _events(items, times, flags, offsets, self.ends_with_day)
        owner = events.owner
        trains = None if self.night is None else self.night.trains(times, df["user_key"].to_numpy()[owner])
        chosen = np.flatnonzero(self.targets.of(events, trains))
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

        def windows(values: np.ndarray) -> np.ndarray:
            padded = np.zeros(len(context) + self.length * (len(offsets) - 1), values.dtype)
            padded[spread] = values[context]
            return sliding_window_view(padded, self.length)[before[rows] + self.length * owner[rows]]

        further = {column: _flat_lists(df[f"{column.field}_list"])[0] for column in self.columns}
        of_history = {column.sequence: values for column, values in further.items()}
        for name, values in {"item_sequence": items, "cat_sequence": cats, **of_history}.items():
            out[name] = list_column(windows(values.astype(np.int32, copy=False)))
        for name, values in zip(("neg_item_sequence", "neg_cat_sequence"), histories, strict=True):
            out[name] = list_column(values)
        for column, values in further.items():
            if column.is_known:
                out[column.field] = values[rows]
        if self.weight:
            weights = _flat_lists(df["weight_list"])[0] if "weight_list" in df else np.ones(len(items))
            weights = (weights if trains is None else weights * trains).astype(np.float32)
            of_targets = weights[rows]
            out[self.weight] = (
                list_column(np.concatenate([windows(weights), of_targets[:, np.newaxis]], 1))
                if self.weight == WEIGHTS
                else of_targets
            )
        if self.has_days:
            values = np.zeros((len(rows), self.length), np.int32)
            if not self.ends_with_day:
                values = _days_before(owner[context], times[context], before[rows], self.length)
            out["days_sequence"] = list_column(values)
        if self.has_kinds:
            out[KIND] = _flat_lists(df[f"{KIND}_list"])[0][rows].astype(np.int8)
        return out

    def compute_output_schema(self, input_schema: Any, col_selector: Any, prev_output_schema: Any = None) -> Schema:
        further = [column.sequence for column in self.columns] + ["days_sequence"] * self.has_days
        known = [column.field for column in self.columns if column.is_known]
        return Schema(
            [
                ColumnSchema("label", dtype=np.int8),
                *(ColumnSchema(name, dtype=np.int32) for name in ("uid", "item", "cat", *known)),
                *_sequences(self.length, "item_sequence", "cat_sequence"),
                *_sequences(self.negatives.length, "neg_item_sequence", "neg_cat_sequence"),
                *_sequences(self.length, *further),
                *([ColumnSchema(WEIGHT, dtype=np.float32)] if self.weight == WEIGHT else []),
                *(
                    [ColumnSchema(WEIGHTS, dtype=np.float32, dims=(None, self.length + 1))]
                    if self.weight == WEIGHTS
                    else []
                ),
                *([ColumnSchema(KIND, dtype=np.int8)] if self.has_kinds else []),
            ]
        )


def _days_before(owner: np.ndarray, times: np.ndarray, target: np.ndarray, length: int) -> np.ndarray:
    """How many of the user's days each item of a history is before the target, int32 ``[n, length]``.

    Args:
        owner: int64 [items], the user of each item of a history.
        times: int64 [items], nanoseconds since 1970.
        target: int64 [n], the place of each target among these items.
    """
    first = first_of_day(owner, times)
    day = np.cumsum(first == np.arange(len(first)))
    begin = np.searchsorted(owner, owner[target])[:, np.newaxis]
    places = target[:, np.newaxis] + np.arange(-length, 0)
    days = np.where(places < begin, day[begin] - 1, day[np.maximum(places, 0)])
    return (day[target][:, np.newaxis] - days).astype(np.int32)


def _sequences(length: int, *names: str) -> list[ColumnSchema]:
    return [ColumnSchema(name, dtype=np.int32, dims=(None, length)) for name in names]


def _flat_lists(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Values and offsets, int64 [rows + 1], of a list column; list i is values[offsets[i]:offsets[i + 1]]."""
    offsets = np.zeros(len(column) + 1, np.int64)
    offsets[1:] = np.cumsum(np.fromiter(map(len, column), np.int64, len(column)))
    return np.concatenate([np.zeros(0, np.int32), *column]), offsets
