"""The data checks of the preprocess step: what it writes, what it says, and what stops it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from components import registry
from components.checks import PROFILE
from components.checks.findings import brief, describe, exceeded
from components.checks.profile import Finding, Profile, read_profile
from components.errors import KfrecError
from components.progress import parse_event
from components.report import Story, page, table
from components.report.page import Facts, render
from tests.datasets.amazon_reviews.raw import preprocess, random_reviews, raw_folder

CATEGORIES = {f"i{item}": f"c{item % 4}" for item in range(60)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checks")
    preprocess(raw_folder(folder / "raw", random_reviews(300, 30, 1), CATEGORIES), folder / "old")
    raw_folder(folder / "same-raw", random_reviews(300, 30, 2), CATEGORIES)
    moved = [(f"new{user}", f"i{29 + int(item[1:])}", time - 30) for user, item, time in random_reviews(60, 31, 3)]
    raw_folder(folder / "moved-raw", [*moved, *moved], CATEGORIES)
    return folder


def profile_of(folder: Path) -> Profile:
    found = read_profile(folder / PROFILE)
    assert found is not None
    return found


def findings(folder: Path) -> dict[tuple[str, str, str], Finding]:
    return {(each.check, each.table, each.column): each for each in profile_of(folder).findings}


def test_the_profile_counts_what_was_read(folder: Path) -> None:
    found = profile_of(folder / "old")
    reviews = found.tables["reviews"]
    assert (found.dataset, found.compared) == ("amazon_reviews", False)
    assert reviews.rows == len(random_reviews(300, 30, 1)) and reviews.malformed == 0
    assert reviews.columns["reviewerID"].values is not None
    assert reviews.columns["reviewerID"].values.distinct == 300
    assert (reviews.columns["unixReviewTime"].lowest, reviews.columns["unixReviewTime"].highest) == (0, 49)
    assert set(found.tables["items"].columns["category"].categories) == {"c0", "c1", "c2", "c3"}


def test_it_holds_no_name_of_a_user_or_item(folder: Path) -> None:
    columns = json.loads((folder / "old" / PROFILE).read_text())["tables"]["reviews"]["columns"]
    for name in ("reviewerID", "asin"):
        held = [*columns[name]["categories"], *columns[name]["values"]["hashes"]]
        assert columns[name]["categories"] and all(re.fullmatch("[0-9a-f]{16}", value) for value in held)


def test_data_like_the_reference_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preprocess(folder / "same-raw", folder / "same", reference_profile=str(folder / "old"), failing_checks="all")
    assert {finding.verdict for finding in findings(folder / "same").values()} == {"passed"}
    assert "data check" not in capsys.readouterr().out


def test_other_data_warn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preprocess(folder / "moved-raw", folder / "moved", reference_profile=str(folder / "old"), older_limit=0)
    found = findings(folder / "moved")
    assert found["duplicates", "reviews", ""].value == pytest.approx(0.5, abs=0.01)
    assert found["new", "reviews", "reviewerID"].value == 1
    assert found["psi", "reviews", "asin"].value > 1
    assert found["psi", "items", "category"].verdict == "passed"
    assert found["time", "reviews", "unixReviewTime"].verdict == "warned"
    told = capsys.readouterr().out
    assert "data check: reviews: column reviewerID: 100.0% of the values are not in the reference, above" in told


def test_every_check_above_its_limit_is_an_event_and_a_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFREC_EVENTS", "1")
    preprocess(folder / "moved-raw", tmp_path / "out", reference_profile=str(folder / "old"), older_limit=0)
    above = exceeded(profile_of(tmp_path / "out").findings)
    assert len(above) >= 4
    lines = capsys.readouterr().out.splitlines()
    events = [event for line in lines if (event := parse_event(line)) is not None and event["kfrec"] == "warning"]
    assert [event["about"] for event in events] == [brief(finding) for finding in above]
    told = [f"data check: {describe(finding)}" for finding in above]
    assert [event["message"] for event in events] == told == [line for line in lines if line.startswith("data check: ")]


def test_all_checks_that_stop_the_step_are_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KfrecError) as raised:
        preprocess(
            folder / "moved-raw",
            tmp_path / "out",
            reference_profile=str(folder / "old"),
            failing_checks="new, duplicates",
        )
    told = str(raised.value)
    assert told.startswith("reviews: the share of duplicate rows") and "; so are new reviews reviewerID" in told
    assert told.endswith("raise duplicate_limit, new_values_limit, or take duplicates, new out of failing_checks")
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("data check: ")]) >= 4


def test_only_sentences_of_a_table_break() -> None:
    """A browser broke the word warned after each letter, and dates at their hyphens."""
    shown = table(("what", "verdict"), [("rows", "warned"), ("time", "2026-11-26 10:00"), ("a sentence " * 4, "")])
    assert "<td>warned</td>" in shown and "<td>2026-11-26 10:00</td>" in shown
    assert re.findall(r'class="long">([^<]*)<', shown) == ["a sentence " * 4]
    style = (Path(page.__file__).parent / "style.css").read_text()
    assert "white-space: nowrap; } figure .long { white-space: normal; }" in style
    assert re.findall(r"([^;{}]+){[^}]*overflow-wrap: anywhere", style) == [" .table td:last-child "]


def test_the_report_begins_with_every_check_above_its_limit(folder: Path, tmp_path: Path) -> None:
    preprocess(
        folder / "moved-raw", tmp_path / "out", reference_profile=str(folder / "old"), psi_limit=0, older_limit=0
    )
    found = profile_of(tmp_path / "out")
    facts = Facts("SIM", {}, {}, profile=found)
    page = html.unescape(render(Story("AUC 0.8", "", [], []), facts, registry.task("click").metrics))
    assert "<h2>Data checks</h2>" in page and page.index("Data checks") < page.index("Provenance")
    assert all(describe(finding) in page for finding in exceeded(found.findings))


def test_swapped_columns_are_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swapped = [(item, user, time) for user, item, time in random_reviews(300, 30, 2)]
    preprocess(
        raw_folder(tmp_path / "raw", swapped, {item: "c0" for _, item, _ in swapped}),
        tmp_path / "out",
        reference_profile=str(folder / "old"),
    )
    out = capsys.readouterr().out
    assert "reviews: no value of column reviewerID is one of it in the reference, and 100% are of column asin" in out
    preprocess(folder / "moved-raw", tmp_path / "moved", reference_profile=str(folder / "old"))
    assert "swapped" not in capsys.readouterr().out


@pytest.mark.parametrize(("check", "parameter"), [("new", "new_values_limit"), ("duplicates", "duplicate_limit")])
def test_a_check_stops_the_step_in_one_line(folder: Path, check: str, parameter: str, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=rf"reviews: .*, above {parameter}=.*; correct the data, raise {parameter}"):
        preprocess(folder / "moved-raw", tmp_path / "out", reference_profile=str(folder / "old"), failing_checks=check)
    assert not (tmp_path / "out").exists()


def test_an_unknown_check_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="failing_checks='psy': no check is called 'psy'; choose from rows"):
        preprocess(folder / "same-raw", tmp_path / "out", failing_checks="psy")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda body: "{", "not a profile"),
        (lambda body: "[]", "not a profile"),
        (lambda body: json.dumps({**body, "format": 2}), r"not a profile \(format"),
        (lambda body: json.dumps({**body, "tables": {"reviews": {"rows": "x"}}}), "not a profile"),
        (lambda body: json.dumps({**body, "dataset": "criteo"}), "profile of the data set criteo"),
        (None, "no profile.json here"),
    ],
)
def test_a_bad_reference_is_one_line(folder: Path, change: Any, told: str, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    reference.mkdir()
    if change:
        (reference / PROFILE).write_text(change(json.loads((folder / "old" / PROFILE).read_text())))
    with pytest.raises(KfrecError, match=told):
        preprocess(folder / "same-raw", tmp_path / "out", reference_profile=str(reference))


def test_a_value_at_its_limit_passes(folder: Path, tmp_path: Path) -> None:
    """1 - 70 / 100 is 0.30000000000000004 in floats."""
    events = [(f"u{row // 10}", f"i{row % 10}", row) for row in range(100)]
    preprocess(raw_folder(tmp_path / "more", events, CATEGORIES), tmp_path / "old")
    preprocess(
        raw_folder(tmp_path / "fewer", events[:70], CATEGORIES),
        tmp_path / "new",
        reference_profile=str(tmp_path / "old"),
        fewer_rows_limit=0.3,
    )
    found = findings(tmp_path / "new")["rows", "reviews", ""]
    assert (found.value, found.verdict) == (pytest.approx(0.3), "passed")


@pytest.mark.parametrize(
    ("check", "value", "limit", "told"),
    [
        ("rows", 0.50002, 0.5, "reviews: 50.002% fewer rows than in the reference, above fewer_rows_limit=0.5"),
        ("psi", 0.25004, 0.25, "reviews: its PSI against the reference is 0.25004, above psi_limit=0.25"),
        ("time", 1.04, 1.0, "reviews: the newest time is 1.04 days before the reference's, above older_limit=1"),
        ("rows", 0.6, 0.5, "reviews: 60.0% fewer rows than in the reference, above fewer_rows_limit=0.5"),
    ],
)
def test_a_value_above_its_limit_is_told_from_it(check: str, value: float, limit: float, told: str) -> None:
    assert describe(Finding(check, "reviews", "", value, limit, "warned")) == told


@pytest.mark.parametrize(
    ("usual", "told"),
    [
        (0.0, "reviews: the share of duplicate rows is 25.0%, above duplicate_limit=0.1"),
        (0.1, "reviews: the share of duplicate rows is 35.0%, 25.0% above the reference's, above duplicate_limit=0.1"),
    ],
)
def test_the_share_of_duplicates_is_that_of_the_data(usual: float, told: str) -> None:
    assert describe(Finding("duplicates", "reviews", "", 0.25, 0.1, "warned", usual)) == told


def test_a_rise_of_duplicates_has_the_references_share(folder: Path, tmp_path: Path) -> None:
    twice = [*random_reviews(60, 31, 3)] * 2
    preprocess(raw_folder(tmp_path / "twice", twice, CATEGORIES), tmp_path / "old")
    thrice = raw_folder(tmp_path / "thrice", [*twice, *twice[: len(twice) // 2]], CATEGORIES)
    preprocess(thrice, tmp_path / "new", reference_profile=str(tmp_path / "old"))
    found = findings(tmp_path / "new")["duplicates", "reviews", ""]
    assert (found.usual, found.usual + found.value) == pytest.approx((0.5, 2 / 3), abs=0.02)


def test_what_cannot_be_compared_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = json.loads((folder / "old" / PROFILE).read_text())
    columns = body["tables"]["reviews"]["columns"]
    columns["rating"] = columns.pop("asin")
    columns["unixReviewTime"]["kind"] = "number"
    body["tables"]["prices"] = body["tables"].pop("items")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / PROFILE).write_text(json.dumps(body))
    preprocess(folder / "same-raw", tmp_path / "out", reference_profile=str(tmp_path / "reference"))
    found = profile_of(tmp_path / "out")
    assert set(found.uncompared) == {"reviews unixReviewTime", "reviews rating", "reviews asin", "prices", "items"}
    told = f"reference or of another type there: {', '.join(found.uncompared)}"
    assert f"data check: not compared, being in only one of the data and the {told}" in capsys.readouterr().out
    shown = render(Story("AUC 0.8", "", [], []), Facts("SIM", {}, {}, profile=found), registry.task("click").metrics)
    assert told in html.unescape(shown)
