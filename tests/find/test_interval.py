"""The data of a night where each version holds new rows alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from components.find.step import has_checkpoints, nights_since_full, since
from components.find.versions import DataVersion

VERSIONS = [DataVersion(f"v{number}", f"logs/v{number}", (f"day_{number}",), False) for number in range(1, 12)]


def test_the_champions_own_version_comes_first_since_its_test_rows_have_not_trained() -> None:
    interval = since(VERSIONS, "v9", 0)
    assert interval.files == "v9/day_9,v10/day_10,v11/day_11"


def test_one_older_version_is_replayed_and_the_same_one_each_time() -> None:
    drawn = {since(VERSIONS, "v9", 0.1).files for _ in range(3)}
    (files,) = drawn
    older, *rest = files.split(",")
    assert rest == ["v9/day_9", "v10/day_10", "v11/day_11"]
    assert older in {f"v{number}/day_{number}" for number in range(1, 9)}
    assert since(VERSIONS, "v1", 0.1).replayed == ()


def test_histories_are_read_from_the_newest_older_versions() -> None:
    interval = since(VERSIONS, "v9", 0.1, history=3)
    assert interval.files == "v6/day_6,v7/day_7,v8/day_8,v9/day_9,v10/day_10,v11/day_11"
    assert str(interval) == "v9 to v11, and reads histories of v6 to v8"
    assert since(VERSIONS, "v2", 0.0, history=30).files.startswith("v1/day_1,v2/day_2,")
    assert str(since(VERSIONS, "v1", 0.1, history=3)) == "v1 to v11"


def version(number: int, kind: str | None) -> Any:
    return SimpleNamespace(version=str(number), tags={"kfrec.vocabulary": kind} if kind else {})


def test_nights_are_counted_back_to_the_last_full_training() -> None:
    assert nights_since_full([]) == 0
    assert nights_since_full([version(1, "fitted"), version(3, "grown"), version(2, "grown")]) == 2
    assert nights_since_full([version(9, "grown"), version(10, "fitted")]) == 0
    assert nights_since_full([version(1, "grown"), version(2, None), version(3, "grown")]) == 1


def test_a_model_whose_checkpoints_are_gone_cannot_be_continued(tmp_path: Any) -> None:
    assert not has_checkpoints("") and not has_checkpoints(str(tmp_path))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "checkpoint").write_text("")
    assert has_checkpoints(str(tmp_path))
