"""A model's explanation of its outputs for a few test samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from components.feature_spec import FeatureSpec
from components.feature_spec.spec import TEST
from components.models.explained import Explained
from components.scoring.model import ExportedModel
from components.scoring.newest import choice_label, is_chosen
from components.scoring.split import translated

# Explained samples: enough for two digits of shares, and fewer than an evaluation batch.
SAMPLES = 1024


def explained(spec: FeatureSpec, model: ExportedModel, lookups: Mapping[str, np.ndarray]) -> Explained | None:
    """Explains the first samples of the test split; None if the model explains nothing.

    Args:
        spec: the data.
        model: the model.
        lookups: as for ``components.scoring.split.score_split``.
    """
    from components.records import Records  # with Numba, as in score_split

    if model.explain is None:
        return None
    samples = next(Records(spec, TEST, features=list(spec.sources[TEST].features)).batches(SAMPLES))
    values = model.explained(translated({name: samples[name] for name in model.inputs}, lookups))
    chosen = is_chosen(choice_label(spec), samples, len(samples[model.inputs[0]]))
    return Explained(spec, samples, chosen, values)
