"""What a model says about some of its outputs, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from components.feature_spec import FeatureSpec


@dataclass(frozen=True)
class Explained:
    """Samples of the test split, and the explanation of the model's outputs for them.

    Attributes:
        samples: the features of the records by name, ``[n]`` or ``[n, length]``, in the ids of the data.
        chosen: bool ``[n]``, whether the user chose the target.
        values: what ``components.models.model.Explaining.explain`` returned, ``[n, ...]`` each.
    """

    spec: FeatureSpec
    samples: Mapping[str, np.ndarray]
    chosen: np.ndarray
    values: Mapping[str, np.ndarray]
