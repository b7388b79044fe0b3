"""Outbrain Click Prediction, as in the public Wide & Deep: ads shown below articles, and which of them was clicked."""

from __future__ import annotations

from components.datasets.definition import DatasetDefinition
from components.datasets.outbrain.parameters import Generation, Sampling
from components.datasets.outbrain.raw_files import CONTRACT
from components.lazy import Lazy

DATASET = DatasetDefinition(
    name="outbrain",
    summary="Ads in displays on pages, of which one was clicked.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.outbrain.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.outbrain.preprocess:preprocess"),
    no_raw_rows="a sample joins seven files",
)
