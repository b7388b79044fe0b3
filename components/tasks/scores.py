"""A model's scores of a split, with those of the controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from components.contract import only_label


@dataclass(frozen=True)
class Scores:
    """A model's outputs for a split; the first axis of all arrays is the samples.

    Attributes:
        targets: features of the channel ``label`` by name, int8 for the dtype bool; empty without labels.
        outputs: of the model's signature, by name.
        kept: the task's kept columns present in the data, by name.
        names: id to value for named columns, without ids outside the vocabulary.
        controlled: scores of the task's controls; None if it has none for the data.
        tables: side tables of the data, name to file; see ``components.feature_spec.side_tables``.
    """

    targets: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    controlled: Controlled | None = None
    tables: Mapping[str, Path] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of samples."""
        return len(next(iter(self.outputs.values())))

    @property
    def labels(self) -> np.ndarray:
        """The only target, ``[n]``.

        Raises:
            KfrecError: there are none or several, or it is a list.
        """
        return only_label(self.targets)


@dataclass(frozen=True)
class Controlled:
    """The scores of ``components.tasks.controls.Controls``.

    Attributes:
        model: the model's scores of the same samples, unchanged.
        others: probe to the output, or baseline to scores, float ``[n, ...]``; None where the model returned none.
        training_samples: samples that the baselines were fitted on; 0 without baselines.
        column_rows: the samples of ``model`` on which single columns were changed, int64 ``[m]``.
        columns: column to the model's output for these samples with that column changed, float ``[m]``.
    """

    model: Scores
    others: Mapping[str, np.ndarray | None]
    training_samples: int
    about: Mapping[str, str] = field(default_factory=dict)
    column_rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
