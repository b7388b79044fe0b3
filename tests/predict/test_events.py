"""kfrec recommend lists for every user of the raw files, from whole histories."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.record import RunRecord
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")


def raw_histories(served: Served) -> dict[str, list[str]]:
    """The items of every user of the raw files, in the order of their times."""
    (path,) = (served.folder / "raw").glob("reviews_*")
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    rows = sorted(map(json.loads, lines), key=lambda row: row["unixReviewTime"])
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        found[row["reviewerID"]].append(row["asin"])
    return found


def listed(words: list[str], output: Path) -> pd.DataFrame:
    assert main(["recommend", f"--model={REGISTERED}@champion", f"--output={output}", *words]) == 0
    return pd.read_json(output, lines=True)


def test_every_user_with_an_event_has_a_list_without_anything_of_the_whole_history(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories = raw_histories(served)
    found = listed(["--all", "--top=70", "--no-keep-seen", f"--events={served.folder / 'raw'}"], tmp_path / "all.jsonl")
    said = capsys.readouterr().out
    # Preprocessing drops users with few reviews.
    assert set(found["user"]) == set(histories) > set(served.users)
    assert f"histories are from the events in {served.folder / 'raw'}" in said
    known = set(served.items)
    lists = found.groupby("user")["item"].agg(set)
    assert all(lists[user] == known - set(items) for user, items in histories.items())


def test_a_users_list_is_that_of_his_whole_history(served: Served, tmp_path: Path) -> None:
    user, items = max(raw_histories(served).items(), key=lambda each: len(each[1]))
    events = next((served.folder / "raw").glob("reviews_*"))
    found = listed([user, "--top=5", f"--events={events}"], tmp_path / "one.jsonl")
    by_hand = listed([user, "--top=5", f"--history={','.join(items)}"], tmp_path / "hand.jsonl")
    pd.testing.assert_frame_equal(found, by_hand)
    users = tmp_path / "users.csv"
    users.write_text(f"user\n{user}\n{served.users[0]}\n")
    both = listed([f"--users={users}", "--top=5", f"--events={events}"], tmp_path / "both.jsonl")
    assert both["user"].tolist() == [user] * 5 + [served.users[0]] * 5
    assert both["item"].tolist()[:5] == found["item"].tolist()


def test_the_run_that_wrote_the_models_records_has_the_events(
    served: Served, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "20261126-100000-aaaa"
    folder.mkdir(parents=True)
    outputs = {"download": "raw", "tfrecord": "tfrecord", "train": "model"}
    steps = {step: {"outputs": {name: str(served.folder / name)}} for step, name in outputs.items()}
    RunRecord(folder, Pipeline(), {}, "sqlite:////x.db", steps=steps, state="finished").write()
    where = ["--workdir", str(tmp_path / "runs"), "--tracking-uri", store]
    for words in ([], ["--model=last"]):
        found = listed([served.users[0], "--top=3", *where, *words], tmp_path / "lists.jsonl")
        assert len(found) == 3 and f"from the events in {served.folder / 'raw'}" in capsys.readouterr().out


def test_without_raw_files_it_is_said_that_records_hold_less(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed([served.users[0], "--top=3"], tmp_path / "lists.jsonl")
    said = capsys.readouterr().out
    assert f"histories are from the records in {served.folder / 'tfrecord'}, the newest items of the users" in said
    assert "--events names them" in said


def test_users_without_a_list_are_written_with_the_reason(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, left_out = tmp_path / "users.jsonl", tmp_path / "left_out.csv"
    rows = [{"user": "all", "history": served.items}, {"user": "none", "history": ["new"]}]
    users.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = listed(
        [f"--users={users}", "--top=2", "--no-keep-seen", f"--left-out={left_out}"], tmp_path / "lists.jsonl"
    )
    assert set(found["user"]) == {"none"}
    reason = "no candidate is left: all are in the history or excluded"
    assert pd.read_csv(left_out).to_dict("records") == [{"user": "all", "reason": reason}]
    said = capsys.readouterr().out
    assert f"1 users have no list: {reason}" in said
    assert f"1 of {len(served.items) + 1} events are of items that the model does not know" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--events=none.csv"], "--events none.csv: no such file; give one folder, or a file with each --events"),
        (["--events=", "--data=x"], "--events and --data both name histories; give one of them"),
        (["--events= "], "--events is empty; name a folder or a file"),
        (["--left-out=a.csv"], "--left-out is of --all and --users"),
    ],
)
def test_what_names_no_events_is_one_line(
    words: list[str], said: str, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", "x", f"--model={REGISTERED}@champion", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_user_of_a_file_without_an_event_is_a_new_customer(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users.csv"
    known = listed(["--all", "--top=2"], tmp_path / "all.jsonl")["user"][0]
    users.write_text(f"user\nnobody\n{known}\nno one\n")
    found = listed([f"--users={users}", "--top=2"], tmp_path / "lists.jsonl")
    assert found["user"].tolist() == ["nobody"] * 2 + [known] * 2 + ["no one"] * 2
    said = f"{users}: nobody and 1 more not in the data: taken as new customers, without a history"
    assert said in capsys.readouterr().out


def test_a_user_without_an_event_is_one_line_that_names_the_given_file(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["recommend", "nobody", f"--model={REGISTERED}@champion", f"--events={served.folder / 'raw'}"]
    assert main(words) == 2
    assert f"user nobody: no event in {served.folder / 'raw'}; give the items with --history" in capsys.readouterr().err
    events = tmp_path / "reviews_x.json"
    events.write_text("nothing\n")
    assert main([*words[:-1], f"--events={events}"]) == 2
    assert str(events) in capsys.readouterr().err
