"""Prints the best MAP@12 and AUC on synthetic test samples: python -m components.datasets.outbrain.synthetic DATA.

DATA is an output of the preprocess step or of a later one; its manifest tells how displays were drawn and divided.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from components.artifacts import open_artifact
from components.datasets.outbrain.synthetic.best import best_scores
from components.errors import KfrecError
from components.shared_parameters import SYNTHETIC


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
