"""Each kind of bad input gives one line that names the file and the remedy, and leaves the earlier output alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from components.artifacts import open_artifact
from components.datasets.outbrain.raw_files import EPOCH, FIELDS
from components.download.step import run as download
from components.errors import KfrecError
from components.steps.catalog import STEPS
from tests.datasets.outbrain.raw import SMALL, error_of, preprocess, raw_folder, samples


def error_with(folder: Path, **changed: str) -> str:
    """The error that the small data gives with other text in some files."""
    return error_of(raw_folder(folder / "raw", **changed), folder / "parquet", malformed_limit=0)


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    raw = raw_folder(tmp_path / "raw")
    (raw / f"{name}.csv").unlink()
    assert f"no {name}.csv or {name}.csv.gz here" in error_of(raw, tmp_path / "parquet")


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_file_of_the_source_is_named_before_anything_is_fetched(tmp_path: Path, name: str) -> None:
    source = raw_folder(tmp_path / "source")
    (source / f"{name}.csv").unlink()
    with pytest.raises(KfrecError, match=rf"no {name}\.csv or {name}\.csv\.gz file"):
        download(STEPS["download"].of(dataset="outbrain", source=str(source)), raw=tmp_path / "raw")


def test_a_file_that_is_there_twice_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw")
    (raw / "events.csv.gz").write_bytes(gzip.compress((raw / "events.csv").read_bytes()))
    assert "events.csv: also exists as events.csv.gz; remove one" in error_of(raw, tmp_path / "parquet")


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    column = FIELDS[name][-1].name
    message = error_with(tmp_path, **{name: SMALL[name].replace(column, "other", 1)})
    assert f"{name}.csv: no column {column} in its first line" in message
    assert "it has to name" in message


def test_a_file_without_a_header_is_told(tmp_path: Path) -> None:
    text = SMALL["clicks_train"].partition("\n")[2]
    assert "clicks_train.csv: no column display_id in its first line '1,5,1'" in error_with(tmp_path, clicks_train=text)


@pytest.mark.parametrize("name", FIELDS)
def test_an_empty_file_is_named(tmp_path: Path, name: str) -> None:
    assert f"{name}.csv: empty; get a complete copy" in error_with(tmp_path, **{name: ""})


def test_a_file_of_clicks_with_a_header_only_is_named(tmp_path: Path) -> None:
    header = SMALL["clicks_train"].partition("\n")[0]
    assert "clicks_train.csv: no clicks in it" in error_with(tmp_path, clicks_train=f"{header}\n")


@pytest.mark.parametrize("name", ["clicks_train", "events", "documents_topics"])
def test_a_file_that_ends_in_a_line_is_named_whatever_the_limit(tmp_path: Path, name: str) -> None:
    text = SMALL[name].rstrip("\n").rpartition(",")[0]
    raw = raw_folder(tmp_path / "raw", **{name: text})
    message = error_of(raw, tmp_path / "parquet", malformed_limit=1)
    assert f"{name}.csv: ends in the middle of line {text.count(chr(10)) + 1}" in message


BAD_LINES = {
    "display_id is 'x', not a whole number from 0 on": ("clicks_train", "x,5,1"),
    "ad_id is '5.5', not a whole number from 0 on": ("clicks_train", "1,5.5,1"),
    "ad_id is '-5', not a whole number from 0 on": ("clicks_train", "1,-5,1"),
    "ad_id is '9223372036854775808', not a whole number from 0 on": ("clicks_train", "1,9223372036854775808,1"),
    "clicked is '2', not 0 or 1": ("clicks_train", "1,5,2"),
    "no clicked": ("clicks_train", "1,5,\\N"),
    "2 fields, not 3": ("clicks_train", "1,5"),
    "4 fields, not 3": ("clicks_train", "1,5,0,7"),
    "no timestamp": ("events", "9,u,2,,1,GB"),
    "publish_time is 'yesterday', not a time such as 2016-06-13 08:00:00": ("documents_meta", "8,1,2,yesterday"),
    "confidence_level is 'nan', not a number": ("documents_topics", "1,3,nan"),
    "topic_id is 'sport', not a whole number from 0 on": ("documents_topics", "1,sport,0.5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", BAD_LINES)
def test_a_malformed_line_is_quarantined_with_its_number_and_reason(tmp_path: Path, reason: str) -> None:
    name, line = BAD_LINES[reason]
    head, _, rest = SMALL[name].partition("\n")
    raw = raw_folder(tmp_path / "raw", **{name: f"{head}\n{line}\n\n{rest}"})
    counts = preprocess(raw, tmp_path / "parquet", test_share=0, malformed_limit=0.5)
    quarantined = (tmp_path / "parquet" / "quarantine" / f"{name}.csv.jsonl").read_text().splitlines()
    assert [json.loads(entry) for entry in quarantined] == [{"line": 2, "reason": reason, "text": line}]
    assert (counts["train"], counts["test"], counts["malformed_lines"]) == (4, 2, 1)


def test_too_many_malformed_lines_name_the_file_the_count_and_the_first(tmp_path: Path) -> None:
    message = error_with(tmp_path, clicks_train=SMALL["clicks_train"] + "x,5,1\n")
    assert "clicks_train.csv: 1 of 7 lines are not lines of clicks_train, the first is line 8 (display_id is" in message
    assert "malformed_limit" in message


BAD_DISPLAYS = {
    "no click": {"clicks_train": SMALL["clicks_train"] + "4,5,0\n4,6,0\n", "events": SMALL["events"] + "4,u,1,5,1,\n"},
    "several clicks": {
        "clicks_train": SMALL["clicks_train"] + "4,5,1\n4,6,1\n",
        "events": SMALL["events"] + "4,u,1,5,1,\n",
    },
    "no event": {"clicks_train": SMALL["clicks_train"] + "4,5,1\n4,6,0\n"},
    "several events": {
        "clicks_train": SMALL["clicks_train"] + "4,5,1\n4,6,0\n",
        "events": SMALL["events"] + "4,u,1,5,1,\n4,u,2,6,1,\n",
    },
    "an ad twice": {
        "clicks_train": SMALL["clicks_train"] + "4,5,1\n4,6,0\n4,6,0\n",
        "events": SMALL["events"] + "4,u,1,5,1,\n",
    },
}


@pytest.mark.parametrize("reason", BAD_DISPLAYS)
def test_a_display_that_cannot_be_ranked_is_refused_with_count_and_remedy(tmp_path: Path, reason: str) -> None:
    message = error_with(tmp_path, **BAD_DISPLAYS[reason])
    assert f"1 of 4 displays do not have one event and one click, the first is display 4 ({reason})" in message
    assert "raise malformed_limit (0) to leave them out" in message


@pytest.mark.parametrize("reason", BAD_DISPLAYS)
def test_a_display_that_cannot_be_ranked_is_left_out_up_to_the_limit(tmp_path: Path, reason: str) -> None:
    raw = raw_folder(tmp_path / "raw", **BAD_DISPLAYS[reason])
    counts = preprocess(raw, tmp_path / "parquet", test_share=0, malformed_limit=0.3)
    assert (counts["train"], counts["displays"], counts["malformed_displays"]) == (4, 4, 1)
    assert samples(tmp_path / "parquet", "train")["display_id"].tolist() == [1, 1, 2, 2]
    listed = (tmp_path / "parquet" / "quarantine" / "displays.csv").read_text()
    assert listed == f"display_id,reason\n4,{reason}\n"


def test_a_repeated_line_of_a_click_is_told_as_an_ad_twice(tmp_path: Path) -> None:
    message = error_with(tmp_path, clicks_train=SMALL["clicks_train"] + "1,5,1\n")
    assert "the first is display 1 (an ad twice)" in message


def test_clicks_of_unknown_ads_are_kept_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = raw_folder(tmp_path / "raw", promoted_content=SMALL["promoted_content"].replace("7,9,2,2\n", ""))
    preprocess(raw, tmp_path / "parquet", test_share=0)
    assert "2 clicks are of ads that promoted_content does not describe" in capsys.readouterr().out
    seventh = samples(tmp_path / "parquet", "train").query("ad_id == 8")
    assert seventh[["document_id_promo", "campaign_id", "advertiser_id", "source_id_promo"]].to_numpy().tolist() == [
        [0, 0, 0, 0]
    ]


def test_a_display_beyond_int32_is_named(tmp_path: Path) -> None:
    clicks = SMALL["clicks_train"] + "2147483648,5,1\n"
    message = error_with(tmp_path, clicks_train=clicks)
    assert "clicks_train.csv: display_id 2147483648 is above 2147483647" in message
    assert "renumber the displays" in message


def test_no_training_sample_tells_the_parameters(tmp_path: Path) -> None:
    message = error_of(raw_folder(tmp_path / "raw"), tmp_path / "parquet", test_share=1)
    assert "no training samples" in message
    assert "raise last_training_day or lower test_share" in message


def test_no_test_sample_tells_the_parameters(tmp_path: Path) -> None:
    message = error_of(raw_folder(tmp_path / "raw"), tmp_path / "parquet", test_share=0, last_training_day=11)
    assert "no test samples" in message
    assert "lower last_training_day or raise test_share" in message


def _with_times(change: Callable[[int], int]) -> str:
    """The events of the small data with other timestamps."""
    head, *lines = SMALL["events"].splitlines()
    fields = [line.split(",") for line in lines]
    return "\n".join([head, *(",".join([*line[:3], str(change(int(line[3]))), *line[4:]]) for line in fields), ""])


def test_timestamps_since_1970_are_told_by_their_days(tmp_path: Path) -> None:
    message = error_with(tmp_path, events=_with_times(lambda time: time + EPOCH))
    assert "no training samples" in message
    assert "the displays are of the days 16966 to 16977, where a timestamp counts milliseconds since 2016" in message


def test_timestamps_in_seconds_are_told_as_no_day_is_held_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = raw_folder(tmp_path / "raw", events=_with_times(lambda time: time // 1000))
    preprocess(raw, tmp_path / "parquet", test_share=0.7)
    said = capsys.readouterr().out
    assert "no display is later than last_training_day=10, so all test samples are of training days" in said
    assert "the displays are of the days 0 to 0" in said


def test_lines_may_end_as_on_windows_and_fields_may_be_quoted(tmp_path: Path) -> None:
    plain = raw_folder(tmp_path / "plain")
    odd = {name: "\ufeff" + text.replace("\n", "\r\n") for name, text in SMALL.items()}
    odd["events"] = odd["events"].replace("US>CA>803", '"US>CA>803"')
    raw = raw_folder(tmp_path / "odd", odd)
    for source in (plain, raw):
        preprocess(source, tmp_path / f"of-{source.name}", test_share=0)
    assert open_artifact(tmp_path / "of-odd").digest == open_artifact(tmp_path / "of-plain").digest


def test_ids_may_have_the_fraction_that_pandas_gives_to_columns_with_gaps(tmp_path: Path) -> None:
    head, *lines = (line.split(",") for line in SMALL["documents_meta"].splitlines())
    floats = [[line[0], *(f"{field}.0" if field.isdigit() else field for field in line[1:])] for line in lines]
    written = "".join(",".join(line) + "\n" for line in [head, *floats])
    assert ",10.0,20.0," in written
    for name, changed in {"whole": {}, "floats": {"documents_meta": written}}.items():
        preprocess(raw_folder(tmp_path / f"raw-{name}", **changed), tmp_path / name, test_share=0)
    assert open_artifact(tmp_path / "floats").digest == open_artifact(tmp_path / "whole").digest


def test_columns_may_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    lines = [line.split(",") for line in SMALL["clicks_train"].splitlines()]
    turned = "".join(f"{clicked},extra,{ad},{display}\n" for display, ad, clicked in lines)
    for name, raw in {
        "plain": raw_folder(tmp_path / "raw-plain"),
        "turned": raw_folder(tmp_path / "raw-turned", clicks_train=turned),
    }.items():
        preprocess(raw, tmp_path / name, test_share=0)
    assert open_artifact(tmp_path / "turned").digest == open_artifact(tmp_path / "plain").digest
