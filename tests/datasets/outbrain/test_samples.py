"""Every feature of a sample, against plain pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.datasets.outbrain.division import Division
from tests.datasets.outbrain import reference
from tests.datasets.outbrain.raw import preprocess, random_tables, raw_folder, samples

TABLES = random_tables(displays=400, seed=3)
SPLITS = ("train", "test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outbrain")
    raw = raw_folder(folder / "raw", TABLES)
    preprocess(raw, folder / "out-of-fold")
    preprocess(raw, folder / "published", rate_folds=1)
    return folder


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return reference.joined(TABLES)


def both(folder: Path, name: str = "out-of-fold") -> pd.DataFrame:
    tables = [samples(folder / name, split).assign(split=split) for split in SPLITS]
    return pd.concat(tables).sort_values(["display_id", "ad_id"], ignore_index=True)


def test_each_click_is_one_sample_with_its_label(folder: Path, rows: pd.DataFrame) -> None:
    ours = both(folder)
    assert ours["display_id"].tolist() == rows["display_id"].tolist()
    assert ours["clicked"].tolist() == rows["clicked"].tolist()


IDS = ["document_id", "ad_id", "document_id_promo", "campaign_id", "source_id", "source_id_promo", "advertiser_id",
       "publisher_id", "publisher_id_promo"]  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_an_id_below_the_buckets_is_its_own_bucket_after_0_for_missing(
    folder: Path, rows: pd.DataFrame, name: str
) -> None:
    assert both(folder)[name].tolist() == (rows[name] + 1).fillna(0).astype(int).tolist()
    assert name == "ad_id" or name == "document_id" or 0 in both(folder)[name].values


def test_platforms_keep_apart_and_a_missing_one_is_0(folder: Path, rows: pd.DataFrame) -> None:
    pairs = set(zip(rows["platform"].fillna(0), both(folder)["platform"], strict=True))
    assert len(pairs) == 4
    assert (0.0, 0) in pairs
    assert all(1 <= bucket <= 4 for value, bucket in pairs if value)


@pytest.mark.parametrize(
    ("name", "length"), [("geo_location", 99), ("geo_location_state", 5), ("geo_location_country", 2)]
)
def test_places_are_hashed_by_their_first_characters(folder: Path, rows: pd.DataFrame, name: str, length: int) -> None:
    cut = rows["geo_location"].str[:length]
    pairs = set(zip(cut.fillna(""), both(folder)[name], strict=True))
    assert len(pairs) == cut.nunique() + 1  # one bucket a value, and no value in two
    assert ("", 0) in pairs
    assert sum(bucket == 0 for _, bucket in pairs) == 1


def test_training_displays_are_about_four_fifths_of_those_of_the_first_days(folder: Path, rows: pd.DataFrame) -> None:
    day = rows["timestamp"] // reference.DAY
    train = both(folder)["split"] == "train"
    assert not train[day > 10].any()
    assert rows[day <= 10].groupby("display_id").ngroups * 0.8 == pytest.approx(
        rows[train].groupby("display_id").ngroups, rel=0.1
    )


def test_a_display_is_in_one_split(folder: Path) -> None:
    assert both(folder).groupby("display_id")["split"].nunique().max() == 1


@pytest.mark.parametrize("name", reference.THRESHOLDS)
def test_published_rates_count_all_training_clicks(folder: Path, rows: pd.DataFrame, name: str) -> None:
    ours = both(folder, "published")
    train = rows[(ours["split"] == "train").to_numpy()]
    expected = reference.rates(rows, train, name)
    np.testing.assert_allclose(ours[f"{name}_ctr"], expected, rtol=1e-6)
    assert expected.nunique() > 2


@pytest.mark.parametrize("name", reference.THRESHOLDS)
def test_rates_of_training_samples_leave_out_their_fold_of_displays(
    folder: Path, rows: pd.DataFrame, name: str
) -> None:
    ours = both(folder)
    is_train = (ours["split"] == "train").to_numpy()
    division = Division(seed=12345, last_training_day=10, test_share=0.2, folds=5)
    rows = rows.assign(fold=np.where(is_train, division.fold(rows["display_id"].to_numpy()), -1))
    train = rows[is_train]
    parts = [reference.rates(rows[rows["fold"] == fold], train[train["fold"] != fold], name) for fold in range(-1, 5)]
    expected = pd.concat(parts).sort_index()
    np.testing.assert_allclose(ours[f"{name}_ctr"], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["ad_id", "document_id_promo"])
def test_counts_are_standardised_logarithms_of_shows_in_training(folder: Path, rows: pd.DataFrame, name: str) -> None:
    ours = both(folder)
    train = (ours["split"] == "train").to_numpy()
    shown = rows[train].groupby(name).size()
    logarithm = np.log1p(rows[name].map(shown).fillna(0))
    expected = (logarithm - logarithm[train].mean()) / logarithm[train].std(ddof=0)
    np.testing.assert_allclose(ours[f"{name}_count"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("suffix", ["", "_promo"])
def test_ages_are_logarithms_of_days_with_the_training_median_for_unknown_ones(
    folder: Path, rows: pd.DataFrame, suffix: str
) -> None:
    ours = both(folder)
    age = rows[f"age{suffix}"]
    filled = age.fillna(age[(ours["split"] == "train").to_numpy()].median())
    assert age.isna().any()
    assert (age == 0).any()
    np.testing.assert_allclose(ours[f"days_since_published{suffix}"], np.log1p(filled), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "name"), [("categories", "category_id"), ("topics", "topic_id"), ("entities", "entity_id")]
)
def test_similarities_are_dot_products_of_weighted_terms(
    folder: Path, rows: pd.DataFrame, kind: str, name: str
) -> None:
    expected = reference.similarity(TABLES, kind, name, rows["document_id"], rows["document_id_promo"])
    np.testing.assert_allclose(both(folder)[f"{kind}_similarity"], expected, rtol=1e-5, atol=1e-6)
    assert (expected > 0).any()
    assert (expected == 0).any()


@pytest.mark.parametrize(("kind", "name"), [("categories", "category_id"), ("topics", "topic_id")])
def test_lists_hold_the_first_three_terms_of_the_viewed_document(
    folder: Path, rows: pd.DataFrame, kind: str, name: str
) -> None:
    terms = reference.read(TABLES, f"documents_{kind}").groupby("document_id")[name].apply(list)
    expected = [([term + 1 for term in terms.get(d, [])] + [0, 0, 0])[:3] for d in rows["document_id"]]
    assert [values.tolist() for values in both(folder)[f"{name.removesuffix('_id')}_id_list"]] == expected


def test_lists_of_entities_are_as_long_and_as_different_as_their_names(folder: Path, rows: pd.DataFrame) -> None:
    terms = reference.read(TABLES, "documents_entities").groupby("document_id")["entity_id"].apply(list)
    buckets: dict[str, set[int]] = {}
    for document, values in zip(rows["document_id"], both(folder)["entity_id_list"], strict=True):
        names = terms.get(document, [])[:3]
        assert (values > 0).tolist() == [place < len(names) for place in range(3)]
        for entity, bucket in zip(names, values, strict=False):
            buckets.setdefault(entity, set()).add(int(bucket))
    assert all(len(found) == 1 for found in buckets.values())
    assert len(set.union(*buckets.values())) == len(buckets) == 12


def test_more_buckets_than_largest_buckets_are_cut(folder: Path, tmp_path: Path, rows: pd.DataFrame) -> None:
    preprocess(folder / "raw", tmp_path / "few", largest_buckets=3)
    ours = both(tmp_path, "few")
    assert ours["ad_id"].sort_values().unique().tolist() == [1, 2, 3]
    assert sorted(ours["ad_id"]) == sorted(rows["ad_id"] % 3 + 1)


def test_a_click_does_not_change_the_rates_of_its_own_display(folder: Path, tmp_path: Path) -> None:
    ours = samples(folder / "out-of-fold", "train")
    display = int(ours["display_id"].iloc[0])
    lines = TABLES["clicks_train"].splitlines()
    mine = [place for place, line in enumerate(lines) if line.startswith(f"{display},")]
    clicked = [lines[place][-1] for place in mine]
    for place, label in zip(mine, clicked[1:] + clicked[:1], strict=True):
        lines[place] = lines[place][:-1] + label
    raw = raw_folder(tmp_path / "raw", TABLES, clicks_train="\n".join(lines) + "\n")
    preprocess(raw, tmp_path / "moved")
    preprocess(raw, tmp_path / "published", rate_folds=1)
    names = [f"{name}_ctr" for name in reference.THRESHOLDS]

    def own(output: Path) -> pd.DataFrame:
        rows = samples(output, "train")
        return rows[rows["display_id"] == display]

    before, after = own(folder / "out-of-fold"), own(tmp_path / "moved")
    assert before["clicked"].tolist() != after["clicked"].tolist()
    pd.testing.assert_frame_equal(before[names], after[names])
    assert not own(folder / "published")[names].equals(own(tmp_path / "published")[names])
