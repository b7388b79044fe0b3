"""Controls: what a task has scored beside the model, to tell what the model's score rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

# The baseline that a model has to beat to be promoted.
BASELINE = "baseline"

# Feature name to array, as in components.records: [n], or [n, length] for lists.
Samples = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Probe:
    """A change of the model's input; a score that stays the same does not rest on what was changed.

    Attributes:
        name: in metrics, such as "empty_history".
        reads: features that ``change`` takes; those that it returns are among them.
        changes: features that ``change`` returns; a model that reads none of them is not scored again.
        change: takes samples of the test split, and returns the changed features.
    """

    name: str
    reads: tuple[str, ...]
    changes: tuple[str, ...]
    change: Callable[[Samples], Samples]


class Baselines(Protocol):
    """Scores without the model, fitted on a sample of the training split."""

    @property
    def features(self) -> tuple[str, ...]:
        """The features that ``fit`` and ``scores`` read."""

    def fit(self, first: Iterable[Samples], second: Iterable[Samples]) -> None:
        """Fits on two parts of the training split.

        What is counted in the labels of one part must be fitted on the other: a sample's own label is in its count.
        """

    def scores(self, samples: Samples) -> dict[str, np.ndarray]:
        """Scores without the model.

        Args:
            samples: of the test split, with the model's outputs by name, which a baseline may judge, such as tokens
                that a model has replaced.

        Returns:
            Baseline name, as in metrics, to scores, as the output that they are compared with; empty if there was
            nothing to fit on.
        """

    @property
    def about(self) -> Mapping[str, str]:
        """What fitting has chosen, by baseline name, such as a column."""


@dataclass(frozen=True)
class Controls:
    """What to score beside the model.

    Attributes:
        probes: changes of the model's input.
        baselines: None if the data lack what they read.
        output: of the model's signature, which is compared with the baselines, ``[n, ...]``.
        samples: largest number of test samples to score, a random part of the split.
        together: feature whose equal values stay together in that part, such as the group of a ranking, which its
            number then only approximates; empty draws blocks of records.
        training_samples: largest number of training samples to fit the baselines on, from the split's beginning.
        columns: changes of one column each, scored on a part of the samples.
        column_samples: largest number of samples of that part.
    """

    probes: tuple[Probe, ...]
    baselines: Baselines | None
    output: str
    samples: int
    training_samples: int
    together: str = ""
    columns: tuple[Probe, ...] = ()
    column_samples: int = 0
