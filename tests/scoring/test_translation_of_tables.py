"""Ids of tables, where 0 is a missing, rare or unknown value, are translated between two vocabularies."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import adopt
from components.feature_spec import Channel, Feature, FeatureSpec
from components.scoring.model import ExportedModel
from components.scoring.translation import translation


def described(folder: Path, channel: str, *values: str) -> FeatureSpec:
    """A feature city whose values have the ids from 1 on."""
    (folder / "vocabulary").mkdir(parents=True)
    pq.write_table(
        pa.table({"id": list(range(1, len(values) + 1)), "value": list(values)}), folder / "vocabulary/city.parquet"
    )
    adopt(folder)
    feature = Feature("city", "int64", len(values))
    named = {"vocabulary": {"city": "vocabulary/city.parquet"}}
    return FeatureSpec({"city": feature}, {}, {channel: ("city",)}, named, folder)


def lookup(tmp_path: Path, channel: str) -> list[int]:
    data = described(tmp_path / "data", channel, "rome", "oslo", "bern")
    known = described(tmp_path / "model", channel, "bern", "rome")
    model = ExportedModel(known.folder, known, {}, ("city",), "", lambda **_: {})
    return translation(data, model)["city"].tolist()


def test_an_unknown_value_of_a_table_becomes_0(tmp_path: Path) -> None:
    assert lookup(tmp_path, Channel.CATEGORICAL) == [0, 2, 0, 1]


def test_an_unknown_value_of_a_list_of_a_table_becomes_0(tmp_path: Path) -> None:
    assert lookup(tmp_path, Channel.MULTIHOT) == [0, 2, 0, 1]


def test_an_unknown_value_of_a_history_becomes_2(tmp_path: Path) -> None:
    assert lookup(tmp_path, Channel.TARGET) == [0, 2, 2, 1]
