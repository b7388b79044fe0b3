"""What a specification says about the values of its ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec, Vocabulary, load_feature_spec

FEATURES = {
    "uid": Feature("uid", "int64", 9),
    "item_trgt": Feature("item_trgt", "int64", 9),
    "item_pos": Feature("item_pos", "int64", 9, 5),
    "color": Feature("color", "int64", 9),
}


def written(folder: Path, vocabulary: Any) -> FeatureSpec:
    spec = FeatureSpec(FEATURES, {}, {}, {"vocabulary": vocabulary}, folder)
    (folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return load_feature_spec(folder)


def test_a_vocabulary_names_its_file_its_unknown_id_and_its_features(tmp_path: Path) -> None:
    spec = written(tmp_path, {"thing": {"file": "v/x.parquet", "unknown": 0, "features": ["item_trgt", "color"]}})
    assert spec.vocabulary_of("color") == Vocabulary("thing", "v/x.parquet", 0, ("item_trgt", "color"))
    assert spec.vocabulary_of("uid") is None


def test_a_vocabulary_may_be_exact(tmp_path: Path) -> None:
    known = Vocabulary("color", "v/x.parquet", 1, ("color",), exact=True)
    assert written(tmp_path, {"color": known.to_dict()}).vocabularies == (known,)


def test_a_vocabulary_without_features_is_that_of_the_feature_of_its_name(tmp_path: Path) -> None:
    spec = written(tmp_path, {"color": {"file": "v/x.parquet", "unknown": 0}})
    assert spec.vocabularies == (Vocabulary("color", "v/x.parquet", 0, ("color",)),)


@pytest.mark.parametrize(
    ("vocabulary", "line"),
    [
        (5, "metadata has vocabulary 5; give a mapping of names to files"),
        ({"uid": 5}, "vocabulary uid is 5; give its file, unknown id and features"),
        ({"uid": {"unknown": 0}}, "vocabulary uid is {'unknown': 0}; give its file"),
        ({"uid": {"file": "x"}}, "vocabulary uid has unknown None; give the id of unknown values"),
        ({"uid": {"file": "x", "unknown": 0, "exact": "no"}}, "vocabulary uid has exact 'no'; give true or false"),
        ({"uid": {"file": "x", "unknown": -1}}, "vocabulary uid has unknown -1"),
        ({"uid": {"file": "x", "unknown": 0, "features": "uid"}}, "vocabulary uid has features 'uid'; give a list"),
        ({"uid": {"file": "x", "unknown": 0, "features": ["u"]}}, "vocabulary uid names u, which feature_spec does"),
        (
            {"uid": {"file": "x", "unknown": 0}, "more": {"file": "y", "unknown": 0, "features": ["uid"]}},
            "vocabularies uid and more both name uid; give it one",
        ),
    ],
)
def test_what_is_malformed_is_one_line(tmp_path: Path, vocabulary: Any, line: str) -> None:
    with pytest.raises(KfrecError) as raised:
        written(tmp_path, vocabulary)
    assert line in str(raised.value) and "\n" not in str(raised.value)
