import pytest

from components.find.step import Known, decide
from components.find.versions import natural_order


def never() -> int:
    raise AssertionError("counted without need")


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    names = ["v10", "v9", "2026-11-10", "2026-11-02", "v9-b", "v9-a"]
    assert sorted(names, key=natural_order) == ["v9", "v9-a", "v9-b", "v10", "2026-11-02", "2026-11-10"]


@pytest.mark.parametrize(
    ("known", "proceeds", "told"),
    [
        (Known(), True, "there is no champion yet"),
        (Known(tried={"v3"}), False, "Nothing is new: v3 is the newest data version, and a model was trained on it"),
        (Known(1, "v3", 100, True, {"v3"}), False, "Nothing is new"),
        (Known(1, "v2", 100, True, {"v2", "v3"}), False, "a model was trained on it already"),
        (Known(1, "v10", 100, True, {"v10"}), False, "the champion was trained on v10, which is newer than v3"),
        (Known(1, "v2", 100, False, {"v2"}), True, "the champion's v2 is gone, so all of this counts as new"),
        (Known(1, "", None), True, "the champion's data is not known"),
    ],
)
def test_what_needs_no_counting(known: Known, proceeds: bool, told: str) -> None:
    verdict = decide("v3", known, 10, False, never)
    assert verdict.proceed is proceeds and told in verdict.occasion


@pytest.mark.parametrize(("there", "proceeds"), [(9, False), (10, True), (5000, True)])
def test_a_version_must_bring_enough(there: int, proceeds: bool) -> None:
    verdict = decide("v3", Known(1, "v2", 100, True, {"v2"}), 10, False, lambda: there)
    assert verdict.proceed is proceeds
    assert ("Too little is new" in verdict.occasion) is not proceeds
    assert f" {there:,} rows that the champion's v2 lacks" in verdict.occasion


def test_force_asks_nothing() -> None:
    assert decide("v3", Known(1, "v3", 100, True, {"v3"}), 10, True, never).proceed
