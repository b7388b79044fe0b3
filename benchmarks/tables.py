"""Random tables whose labels have known probabilities: steps of numbers, and choices of ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

# Samples of each split in ten.
_SPLITS = {"train": 6, "validation": 2, "test": 2}
_NUMBERS, _PAIRS = 40, 30
_USERS, _ITEMS, _FACTORS = 300, 1200, 3
# Values of the eight columns of contexts.
_CONTEXTS = (7, 24, 2, 10, 50, 200, 5, 1000)


def write_steps(folder: Path, rows: int, seed: int = 1) -> float:
    """Writes 40 numbers, a third of them with long tails or whole, whose effects are weak steps and pairs of steps.

    Args:
        folder: receives a table for each split, and schema.yaml.
        rows: of all splits.
        seed: of the table.

    Returns:
        The AUC of the labels' probabilities on the test split.
    """
    random = np.random.default_rng(seed)
    normal = random.normal(size=(_NUMBERS, rows))
    shapes = (np.asarray, lambda z: np.exp(1.5 * z), lambda z: np.floor(2 * np.exp(z)), lambda z: 100 * z**3)
    numbers = [shapes[number % len(shapes)](values) for number, values in enumerate(normal)]

    def above(number: int) -> np.ndarray:
        return np.asarray(numbers[number] > np.quantile(numbers[number], random.uniform(0.15, 0.85)), np.float64)

    logits = np.full(rows, -1.0)
    for number in np.repeat(np.arange(_NUMBERS), 2).tolist():
        logits += random.normal(0, 0.25) * (above(number) - 0.5)
    for _ in range(_PAIRS):
        one, other = random.choice(_NUMBERS, 2, replace=False)
        logits += random.normal(0, 0.5) * (above(one) * above(other) - 0.25)
    columns = {f"x{number}": values for number, values in enumerate(numbers)}
    return _write(folder, columns, {name: {"role": "numeric"} for name in columns}, logits, random)


def write_choices(folder: Path, rows: int, seed: int = 1) -> float:
    """Writes choices of users among items in contexts: ten columns of ids, a third of the rows positive.

    Users and items have factors, a context shifts the user's, and popular items and active users occur more often.

    Args:
        folder: receives a table for each split, and schema.yaml.
        rows: of all splits.
        seed: of the table.

    Returns:
        The AUC of the labels' probabilities on the test split.
    """
    random = np.random.default_rng(seed)
    user = np.minimum(random.exponential(_USERS / 4, rows), _USERS - 1).astype(int)
    item = np.minimum(random.exponential(_ITEMS / 6, rows), _ITEMS - 1).astype(int)
    contexts = [random.integers(0, values, rows) for values in _CONTEXTS]
    taste = random.normal(size=(_USERS, _FACTORS))[user]
    for values, context in zip(_CONTEXTS, contexts, strict=True):
        taste = taste + 0.2 * random.normal(size=(values, _FACTORS))[context]
    fits = 4 / np.sqrt(_FACTORS) * (taste * random.normal(size=(_ITEMS, _FACTORS))[item]).sum(1)
    logits = fits + 2 * random.normal(size=_ITEMS)[item] + 2 * random.normal(size=_USERS)[user] - 2
    columns = {"user": user, "item": item, **{f"context{n}": values for n, values in enumerate(contexts)}}
    texts = {name: values.astype(str) for name, values in columns.items()}
    return _write(folder, texts, {name: {"role": "categorical"} for name in columns}, logits, random)


def _write(
    folder: Path,
    columns: dict[str, np.ndarray],
    roles: dict[str, dict[str, str]],
    logits: np.ndarray,
    random: np.random.Generator,
) -> float:
    from sklearn.metrics import roc_auc_score

    probabilities = 1 / (1 + np.exp(-logits))
    labels = (random.random(len(logits)) < probabilities).astype(int)
    table = pa.table({"label": labels, **columns})
    ends = (np.cumsum([0, *_SPLITS.values()]) * len(labels)) // sum(_SPLITS.values())
    for split, first, end in zip(_SPLITS, ends[:-1], ends[1:], strict=True):
        pq.write_table(table.slice(first, end - first), folder / f"{split}.parquet")
    by = {"by": "files", "test": ["test.*"], "validation": ["validation.*"]}
    body = {"label": {"column": "label"}, "split": by, "columns": roles}
    (folder / "schema.yaml").write_text(yaml.safe_dump(body))
    return float(roc_auc_score(labels[ends[-2] :], probabilities[ends[-2] :]))
