"""The file of schedules: its mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from components.errors import KfrecError
from pipelines.cluster.schedules import load_schedules
from tests.pipelines.cluster.reconciling import NIGHTLY, write


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: s.update(cron="0 2 * * *"), "has 5 fields, KFP's has 6, seconds first; write '0 0 2 * * *'"),
        (lambda s: s.update(start="2026-02-01T00:00:00Z", end="2026-01-01T00:00:00Z"), "is not after start"),
        (lambda s: s.update(name="Nightly Run"), "use lowercase letters, digits and dashes"),
        (lambda s: s.update(pipeline="trainning"), "is not one of training"),
        (lambda s: s.update(max_concurrency=0), "must be at least 1"),
        (lambda s: s.update(start="tomorrow"), "is not a time"),
        (lambda s: s.update(start="2026-01-01T00:00:00"), "is not a time"),
        (lambda s: s.update(parameters={"epoch": 1}), "unknown parameter epoch: did you mean epochs?"),
        (lambda s: s.update(catchup=True), "unknown parameter catchup: did you mean catch_up?"),
        (lambda s: s.update(catch_up="no"), "is not true or false"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path: Path, change: Callable[[dict], object], told: str) -> None:
    schedule = dict(NIGHTLY)
    change(schedule)
    with pytest.raises(KfrecError) as error:
        load_schedules(write(tmp_path / "schedules.yaml", schedule))
    assert "schedules.yaml: schedule 1" in str(error.value) and told in str(error.value)
    assert "\n" not in str(error.value)


def test_the_time_zone_has_to_be_stated(tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    file.write_text("schedules: []\n")
    with pytest.raises(KfrecError, match="time_zone is missing; set it to that of KFP's scheduler"):
        load_schedules(file)
    with pytest.raises(KfrecError, match="time_zone 'Mars/North' is not known"):
        load_schedules(write(file, time_zone="Mars/North"))


def test_a_name_used_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="the name nightly is used twice"):
        load_schedules(write(tmp_path / "schedules.yaml", NIGHTLY, NIGHTLY))
