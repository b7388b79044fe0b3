"""The best that a model can do on the test samples of the synthetic data set.

    python -m components.datasets.outbrain.best_scores DATA

prints the best MAP@12 and AUC. DATA is an output of the preprocess step or of a later one; its manifest tells how
displays were drawn and divided.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from components.artifacts import open_artifact
from components.datasets.outbrain.division import Division
from components.datasets.outbrain.raw_files import DAY
from components.datasets.outbrain.synthetic import draw_displays, make_world
from components.errors import KfrecError
from components.metrics import auc_of_histograms
from components.parameters import SYNTHETIC

# Utilities are between -BOUND and BOUND; rows whose utilities fall into one bin count as ties.
_BOUND, _BINS = 12.0, 1 << 20
MOST_RANKED = 12


def best_scores(generation: Any, sampling: Any) -> dict[str, float]:
    """MAP@12 and AUC of the true utilities.

    Their order within a display is optimal, since the odds of two of its ads depend on their utilities alone. Over all
    rows another score may gain 0.0003 AUC, since a place or page also says a little about a display's other ads.

    They are computed from the labels of the test samples, as a model's are. The displays are drawn again, so nothing is
    read, and memory does not grow with their number.

    Returns:
        ``map_at_12``, ``auc``, and the number of test ``displays`` and ``rows``.
    """
    division = Division(sampling.seed, sampling.last_training_day, sampling.test_share, sampling.rate_folds)
    histogram = np.zeros((2, _BINS), np.int64)
    precision, displays = 0.0, 0
    for drawn in draw_displays(generation, make_world(generation)):
        test = division.is_test(drawn.number, drawn.time // DAY)
        utility = np.where(drawn.shown, drawn.utility, -np.inf)[test]
        clicked, shown = drawn.clicked[test], drawn.shown[test]
        mine = np.take_along_axis(utility, clicked[:, None], axis=1)
        earlier = np.arange(utility.shape[1]) < clicked[:, None]
        rank = 1 + (utility > mine).sum(axis=1) + ((utility == mine) & earlier).sum(axis=1)
        precision += float((1 / rank[rank <= MOST_RANKED]).sum())
        displays += len(rank)
        bins = ((utility[shown] / _BOUND + 1) / 2 * _BINS).astype(np.int64).clip(0, _BINS - 1)
        label = (np.arange(utility.shape[1]) == clicked[:, None])[shown]
        for value in (0, 1):
            histogram[value] += np.bincount(bins[label == value], minlength=_BINS)
    return {
        "map_at_12": precision / displays if displays else float("nan"),
        "auc": auc_of_histograms(histogram[1], histogram[0])[0],
        "displays": displays,
        "rows": int(histogram.sum()),
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        history = open_artifact(Path(arguments[0])).history
        made = [history.get(step, {}) for step in ("download", "preprocess")]
        if any(step.get("dataset") != "outbrain" for step in made) or made[0].get("source") != SYNTHETIC:
            raise KfrecError(
                f"{arguments[0]}: not made of synthetic displays of outbrain; give an output of the preprocess step or "
                "of a later one, from source=synthetic"
            )
        generation, sampling = (SimpleNamespace(**step) for step in made)
        print(json.dumps(best_scores(generation, sampling)))
    except KfrecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
