"""The channels of a table are read as a model needs them, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.models.tabular import read_tabular

CITY, TAGS, PRICE = Feature("city", "int64", 9), Feature("tags", "int64", 5, 3), Feature("price", "float32")


def spec(**channels: Feature) -> FeatureSpec:
    features = {feature.name: feature for feature in channels.values()}
    named = {channel: (feature.name,) for channel, feature in channels.items()}
    return FeatureSpec(features, {}, named, folder=Path("data"))


def test_each_channel_is_read() -> None:
    read = read_tabular(spec(categorical=CITY, multihot=TAGS, numerical=PRICE))
    assert (read.categorical, read.multihot, read.numerical) == ((CITY,), (TAGS,), (PRICE,))
    assert read.serving_features == ("city", "tags", "price")


def test_channels_may_be_absent_but_not_all() -> None:
    assert read_tabular(spec(numerical=PRICE)).serving_features == ("price",)
    with pytest.raises(KfrecError, match="no feature in the channels categorical, multihot, numerical"):
        read_tabular(spec(**{Channel.LABEL: Feature("label", "bool")}))


@pytest.mark.parametrize(
    ("channel", "feature", "message"),
    [
        ("categorical", Feature("city", "int64"), "city has no cardinality"),
        ("categorical", Feature("city", "int64", 9, 2), r"city has dimensions \[2\]"),
        ("multihot", Feature("tags", "int64", 5), "tags has no dimensions"),
        ("numerical", Feature("price", "int64"), "price has dtype int64"),
        ("numerical", Feature("price", "float32", None, 2), r"price has dimensions \[2\]"),
    ],
)
def test_a_feature_that_does_not_fit_its_channel_is_named(channel: str, feature: Feature, message: str) -> None:
    with pytest.raises(KfrecError, match=f"feature {message}"):
        read_tabular(spec(**{channel: feature}))
