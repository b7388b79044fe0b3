"""The NVTabular operators that cut users' histories into samples, and their workflows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.datasets.amazon_reviews.popularity import load_popularity
from components.workflows.columns import array_module, flat_lists, list_column
from components.workflows.nvtabular_quiet import ColumnSchema, ColumnSelector, Schema, Workflow, ops
from components.workflows.random_draws import draws

if TYPE_CHECKING:
    from components.datasets.amazon_reviews.parameters import PreprocessReviews

TRAIN, TEST = 0, 1
HISTORIES = Schema(
    [
        ColumnSchema("user_key", dtype=np.int64),
        ColumnSchema("uid", dtype=np.int32),
        ColumnSchema("item_list", dtype=np.int32, dims=(None, (0, None))),
        ColumnSchema("cat_list", dtype=np.int32, dims=(None, (0, None))),
    ]
)


def train_samples(parameters: PreprocessReviews, popularity: Path) -> Workflow:
    """Encoded histories to training samples: every item as target but a user's last one, which is the test target."""
    windows = SlidingWindows(parameters.max_sequence_length, parameters.shortest_sequence_for_training)
    negatives = SampleNegatives(popularity, parameters.negative_sequence_length, parameters.seed, TRAIN)
    return Workflow(HISTORIES.column_names >> windows >> negatives).fit_schema(HISTORIES)


def test_samples(parameters: PreprocessReviews, popularity: Path) -> Workflow:
    """Encoded histories to test samples: the last item of each user as target, after the newest items before it."""
    newest = ["item_list", "cat_list"] >> ops.ListSlice(-(parameters.max_sequence_length + 1))
    windows = SlidingWindows(parameters.max_sequence_length, last_only=True)
    negatives = SampleNegatives(popularity, parameters.negative_sequence_length, parameters.seed, TEST)
    return Workflow((newest + ColumnSelector(["user_key", "uid"])) >> windows >> negatives).fit_schema(HISTORIES)


class SlidingWindows(ops.Operator):
    """Two adjacent rows per target in a user's history, with the window of items before it.

    In: user_key, uid, item_list, cat_list. Out: user_key, uid, position (of the target in the list), copy (0 for the
    positive, 1 for the row that becomes a negative), item, cat (the target), item_sequence, cat_sequence (exactly
    ``length`` ids, oldest first, 0 where the history is shorter).

    Args:
        length: window length in items.
        shortest_history: targets with a shorter history are dropped.
        last_only: take the last item of a list as its only target; otherwise take all but the last.
    """

    def __init__(self, length: int, shortest_history: int = 1, last_only: bool = False) -> None:
        super().__init__()
        self.length, self.shortest_history, self.last_only = length, shortest_history, last_only

    def transform(self, col_selector: Any, df: Any) -> Any:
        xp = array_module(df)
        items, offsets = flat_lists(df["item_list"])
        cats, _ = flat_lists(df["cat_list"])
        users, positions, copies = self._targets(xp, offsets[1:] - offsets[:-1])
        places = offsets[:-1][users] + positions

        out = type(df)()
        out["user_key"] = df["user_key"].values[users]
        out["uid"] = df["uid"].values[users]
        out["position"] = positions
        out["copy"] = copies
        out["item"], out["cat"] = items[places], cats[places]
        # Zeros before each user's items pad the windows at the start of a history.
        owner = xp.searchsorted(offsets[1:], xp.arange(len(items)), side="right")
        spread = xp.arange(len(items)) + self.length * (owner + 1)
        for name, values in (("item_sequence", items), ("cat_sequence", cats)):
            padded = xp.zeros(len(items) + self.length * (len(offsets) - 1), xp.int32)
            padded[spread] = values
            out[name] = list_column(_windows(xp, padded, self.length)[places + self.length * users])
        return out

    def _targets(self, xp: Any, lengths: Any) -> tuple[Any, Any, Any]:
        """User row, list position and copy number of each output row."""
        if self.last_only:
            first, count = lengths - 1, xp.minimum(lengths, 1)
        else:
            first = xp.full(len(lengths), self.shortest_history, xp.int64)
            count = xp.maximum(lengths - 1 - self.shortest_history, 0)
        ends = xp.cumsum(2 * count)
        rows = xp.arange(int(ends[-1]) if len(ends) else 0)
        users = xp.searchsorted(ends, rows, side="right")
        number = rows - (ends - 2 * count)[users]
        return users, first[users] + number // 2, (number % 2).astype(xp.int8)

    def compute_output_schema(self, input_schema: Any, col_selector: Any, prev_output_schema: Any = None) -> Schema:
        return Schema(
            [
                ColumnSchema("user_key", dtype=np.int64),
                ColumnSchema("uid", dtype=np.int32),
                ColumnSchema("position", dtype=np.int64),
                ColumnSchema("copy", dtype=np.int8),
                ColumnSchema("item", dtype=np.int32),
                ColumnSchema("cat", dtype=np.int32),
                *_sequences(self.length, "item_sequence", "cat_sequence"),
            ]
        )


class SampleNegatives(ops.Operator):
    """Makes every second copy of a window a negative sample and gives each sample a negative history.

    In: the output of :class:`SlidingWindows`. Out: label, uid, item, cat, item_sequence, cat_sequence,
    neg_item_sequence, neg_cat_sequence. Negatives are drawn from all kept reviews, thus by popularity, each with its
    category there.

    Args:
        popularity: folder that ``Popularity.save`` wrote.
        length: length of a negative history in items.
        seed: seed of the draws.
        stream: separates the random draws of the two splits.
    """

    def __init__(self, popularity: Path, length: int, seed: int, stream: int) -> None:
        super().__init__()
        self.popularity, self.length, self.seed, self.stream = popularity, length, seed, stream

    def transform(self, col_selector: Any, df: Any) -> Any:
        xp = array_module(df)
        popularity = load_popularity(self.popularity)
        items, cats = xp.asarray(popularity.items), xp.asarray(popularity.categories)
        pairs = xp.asarray(popularity.reviews)

        copies, count = df["copy"].values, self.length + 1
        random = draws(
            xp,
            self.seed,
            self.stream,
            df["user_key"].values,
            df["position"].values,
            copies.astype(xp.int64) * count,
            count,
        )
        drawn = pairs[(random % np.uint64(len(pairs))).astype(xp.int64)]
        negative = copies == 1

        out = type(df)()
        out["label"] = 1 - copies
        out["uid"] = df["uid"]
        out["item"] = xp.where(negative, items[drawn[:, 0]], df["item"].values)
        out["cat"] = xp.where(negative, cats[drawn[:, 0]], df["cat"].values)
        out["item_sequence"] = df["item_sequence"]
        out["cat_sequence"] = df["cat_sequence"]
        out["neg_item_sequence"] = list_column(items[drawn[:, 1:]])
        out["neg_cat_sequence"] = list_column(cats[drawn[:, 1:]])
        return out

    def compute_output_schema(self, input_schema: Any, col_selector: Any, prev_output_schema: Any = None) -> Schema:
        return Schema(
            [
                ColumnSchema("label", dtype=np.int8),
                *(input_schema[name] for name in ("uid", "item", "cat", "item_sequence", "cat_sequence")),
                *_sequences(self.length, "neg_item_sequence", "neg_cat_sequence"),
            ]
        )


def _windows(xp: Any, values: Any, length: int) -> Any:
    """Row i is values[i:i + length]; a view."""
    stride = values.strides[0]
    return xp.lib.stride_tricks.as_strided(values, (len(values) - length + 1, length), (stride, stride))


def _sequences(length: int, *names: str) -> list[ColumnSchema]:
    return [ColumnSchema(name, dtype=np.int32, dims=(None, length)) for name in names]
