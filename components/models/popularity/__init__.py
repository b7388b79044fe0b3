"""Popularity, a baseline: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.spec import FILENAME
from components.models.definition import ModelDefinition
from components.models.model import Model
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer
from components.parameters import param

# Channels with countable ids; the default is the first feature of the first non-empty channel.
_CHANNELS = (Channel.TARGET, Channel.CATEGORICAL, Channel.MULTIHOT, Channel.USER)


@dataclass(frozen=True)
class PopularityParameters(OneOptimizer):
    """The feature whose values are counted, and the optimizer that does it."""

    feature: str = param(
        "", "Feature whose values determine the score; empty is the first one of the target item, or of the table"
    )
    lr: float = param(0.05, "Learning rate", at_least=0)


def counted_feature(spec: FeatureSpec, name: str) -> Feature:
    """The feature ``name``, or for an empty name the first one of the target item or of the table.

    Raises:
        KfrecError: there is no such feature.
    """
    names = [feature for channel in _CHANNELS for feature in spec.channels.get(channel, ())]
    known = {feature: spec.features[feature] for feature in names if spec.features[feature].cardinality is not None}
    if not known:
        raise KfrecError(
            f"{spec.folder / FILENAME}: no feature with a cardinality in the channels {', '.join(_CHANNELS)}; "
            "name one whose values can be counted"
        )
    if name and name not in known:
        raise KfrecError(
            f"parameter feature={name!r}: {spec.folder / FILENAME} has no such ids; it has {', '.join(known)}"
        )
    return known[name or next(iter(known))]


def _build(parameters: PopularityParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from components.models.popularity.model import Popularity

    return Popularity(counted_feature(spec, parameters.feature))


MODEL = ModelDefinition(
    name="popularity",
    title="Popularity",
    summary="How often the value of one feature, such as the item, was clicked; a baseline.",
    parameters=PopularityParameters,
    build=_build,
    optimizers=one_optimizer,
    dataset="tabular",
    task="click",
    defaults={"epochs": 5, "global_batch_size": 4096},
    local_defaults={"global_batch_size": 1024},
    is_baseline=True,
)
