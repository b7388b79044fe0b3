"""Random tables whose labels have known probabilities: steps of numbers, choices of ids, and uses of many ids."""

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
# Of the log of uses: users, items, and columns of context, of which the last three are a user's own.
_LOG_USERS, _LOG_ITEMS, _NEGATIVES = 950, 4000, 2
_LOG_CONTEXTS = {"hour": 7, "day": 7, "weekend": 2, "place": 3, "weather": 9, "paid": 2, "country": 80, "city": 230}
_OWN = ("paid", "country", "city")


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
    roles = {name: {"role": "numeric"} for name in columns}
    return _write(folder, columns, roles, logits, _drawn(logits, random))


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
    return _write(folder, texts, {name: {"role": "categorical"} for name in columns}, logits, _drawn(logits, random))


def write_uses(folder: Path, rows: int, seed: int = 1) -> float:
    """Writes a log of which items users used in which contexts, with two random items for each use.

    A user uses a few items again and again, which ones by popularity and by factors; the context shifts how often.
    Activity and popularity follow power laws, so that most users and items have few rows.

    Args:
        folder: receives a table for each split, and schema.yaml.
        rows: of all splits.
        seed: of the table.

    Returns:
        The AUC, on the test split, of the probabilities that an item was used rather than drawn.
    """
    random = np.random.default_rng(seed)
    user = random.choice(_LOG_USERS, rows // (1 + _NEGATIVES), p=_zipf(_LOG_USERS, 0.6))
    of_users = {name: random.choice(values, _LOG_USERS, p=_zipf(values, 1.5)) for name, values in _LOG_CONTEXTS.items()}
    drawn = {name: random.choice(values, len(user), p=_zipf(values, 0.5)) for name, values in _LOG_CONTEXTS.items()}
    contexts = {name: of_users[name][user] if name in _OWN else values for name, values in drawn.items()}
    factors = random.normal(size=(_LOG_ITEMS, _FACTORS))
    tastes, popularity = random.normal(size=(_LOG_USERS, _FACTORS)), np.log(_zipf(_LOG_ITEMS, 1.1))
    shifts = np.zeros((len(user), _FACTORS))
    for name, values in contexts.items():
        shifts += 0.3 * random.normal(size=(_LOG_CONTEXTS[name], _FACTORS))[values]
    # log p(item | user, context), less than any for what a user does not use.
    logits = np.full((len(user), 1 + _NEGATIVES), -99.0)
    items = random.integers(0, _LOG_ITEMS, logits.shape)
    for each in range(_LOG_USERS):
        own = np.flatnonzero(user == each)
        wanted = popularity + factors @ tastes[each] + random.gumbel(size=_LOG_ITEMS)
        used = np.argsort(-wanted)[: 3 + int(2 * np.sqrt(len(own)))]
        scores = shifts[own] @ factors[used].T - np.log(1 + np.arange(len(used)))
        items[own, 0] = used[(scores + random.gumbel(size=scores.shape)).argmax(1)]
        known = np.full((len(own), _LOG_ITEMS), -99.0)
        known[:, used] = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        logits[own] = np.take_along_axis(known, items[own], 1)
    columns = {"user": np.repeat(user, 1 + _NEGATIVES), "item": items.ravel()}
    columns |= {name: np.repeat(values, 1 + _NEGATIVES) for name, values in contexts.items()}
    order = random.permutation(items.size)
    texts = {name: values[order].astype(str) for name, values in columns.items()}
    labels = np.tile([1] + [0] * _NEGATIVES, len(user))[order]
    return _write(folder, texts, {name: {"role": "categorical"} for name in columns}, logits.ravel()[order], labels)


def _drawn(logits: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return (random.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(int)


def _zipf(values: int, power: float) -> np.ndarray:
    """Shares of the values, the k-th in proportion to ``k^-power``."""
    shares = np.arange(1, values + 1) ** -power
    return np.asarray(shares / shares.sum())


def _write(
    folder: Path,
    columns: dict[str, np.ndarray],
    roles: dict[str, dict[str, str]],
    logits: np.ndarray,
    labels: np.ndarray,
) -> float:
    from sklearn.metrics import roc_auc_score

    table = pa.table({"label": labels, **columns})
    ends = (np.cumsum([0, *_SPLITS.values()]) * len(labels)) // sum(_SPLITS.values())
    for split, first, end in zip(_SPLITS, ends[:-1], ends[1:], strict=True):
        pq.write_table(table.slice(first, end - first), folder / f"{split}.parquet")
    by = {"by": "files", "test": ["test.*"], "validation": ["validation.*"]}
    body = {"label": {"column": "label"}, "split": by, "columns": roles}
    (folder / "schema.yaml").write_text(yaml.safe_dump(body))
    return float(roc_auc_score(labels[ends[-2] :], logits[ends[-2] :]))
