"""The categories of items that a model carries on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from components.datasets.histories.catalogue import Popularity, write_catalogue
from components.errors import KfrecError
from components.feature_spec.catalogue import CATALOGUE, read_catalogue


def popularity(pairs: dict[int, int]) -> Popularity:
    items, categories = (np.array(list(values), np.int32) for values in (pairs.keys(), pairs.values()))
    return Popularity(items, categories, np.ones(len(items), np.int64))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vocabulary").mkdir()
    return tmp_path


def test_items_that_newer_data_lack_keep_their_category(folder: Path) -> None:
    write_catalogue(popularity({3: 7, 4: 8, 5: 9}), None, 5, folder)
    earlier = read_catalogue(folder)
    write_catalogue(popularity({4: 3}), earlier, 6, folder)
    found = read_catalogue(folder)
    assert found is not None and found.tolist() == [0, 0, 0, 7, 3, 9]


def test_a_model_of_an_earlier_kfrec_has_none(folder: Path) -> None:
    assert read_catalogue(folder) is None


def test_a_damaged_one_is_named(folder: Path) -> None:
    (folder / CATALOGUE).write_bytes(b"PAR1")
    with pytest.raises(KfrecError, match=r"catalogue\.parquet: no catalogue of items"):
        read_catalogue(folder)
