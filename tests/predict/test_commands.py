"""kfrec predict, kfrec recommend and kfrec serve-manifest."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from components.feature_spec import load_feature_spec
from components.feature_spec.values import read_counts, read_values
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.record import RunRecord
from pipelines.serving import inference_service
from tests.predict.conftest import REGISTERED, Served

pytestmark = pytest.mark.usefixtures("store")


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """Rows in the format of the file's name."""
    if path.name.endswith(".parquet"):
        pd.DataFrame(rows).to_parquet(path)
    elif path.name.endswith(".csv"):
        flat = [{**row, "history": "|".join(row["history"]) or "[]"} for row in rows]  # type: ignore[arg-type]
        pd.DataFrame(flat).to_csv(path, index=False)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(content.encode()) if path.name.endswith(".gz") else content.encode())
    return path


def read(path: Path) -> pd.DataFrame:
    if path.name.endswith(".parquet"):
        return pd.read_parquet(path)
    return pd.read_csv(path) if ".csv" in path.name else pd.read_json(path, lines=True)


@pytest.mark.slow
@pytest.mark.parametrize("model", [f"{REGISTERED}@champion", f"models:/{REGISTERED}/1", "folder"])
@pytest.mark.parametrize(
    ("source", "target"), [("a.parquet", "b.csv"), ("a.csv", "b.jsonl.gz"), ("a.jsonl.gz", "b.parquet")]
)
def test_every_format_gets_the_scores_of_the_evaluation(
    source: str, target: str, model: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if model == "folder":
        model = str(served.folder / "model")
    rows = [{**row, "note": f"no {number}"} for number, row in enumerate(served.rows)]
    given = write(tmp_path / source, rows)
    out = tmp_path / target
    assert main(["predict", model, "--input", str(given), "--output", str(out), "--batch-size=7"]) == 0
    found = read(out)
    np.testing.assert_allclose(found["probability"], served.scores, atol=1e-6)
    assert found["note"].tolist() == [f"no {number}" for number in range(len(rows))]
    assert list(found.columns) == ["user", "history", "item", "note", "probability", "logit", "unknown_ids"]
    said = capsys.readouterr().out
    assert f"{len(rows)} rows, " in said and "rows/s; the model knows all ids" in said


@pytest.fixture
def run(served: Served, tmp_path: Path) -> RunRecord:
    """A finished run of the workdir ``tmp_path / "runs"`` that made the artifacts."""
    folder = tmp_path / "runs" / "20261126-100000-aaaa"
    folder.mkdir(parents=True)
    steps = {step: {"outputs": {name: str(served.folder / name)}, "seconds": 1.0}
             for step, name in (("tfrecord", "tfrecord"), ("train", "model"))}  # fmt: skip
    record = RunRecord(folder, Pipeline(), {}, "sqlite:////x.db", steps=steps, state="finished")
    record.write()
    registered = {"model": REGISTERED, "version": 1, "alias": "champion"}
    (folder / "summary.json").write_text(json.dumps({"parameters": {}, "metrics": {}, "registered": registered}))
    return record


@pytest.mark.parametrize("named", ["last", "20261126-100000-aaaa"])
def test_a_run_stands_for_its_model(named: str, run: RunRecord, served: Served, store: str, tmp_path: Path) -> None:
    where = ["--workdir", str(tmp_path / "runs"), "--tracking-uri", store]
    given, out, lists = write(tmp_path / "rows.csv", served.rows), tmp_path / "out.csv", tmp_path / "lists.csv"
    assert main(["predict", named, "--input", str(given), "--output", str(out), *where]) == 0
    np.testing.assert_allclose(read(out)["probability"], served.scores, atol=1e-6)
    assert main(["recommend", served.users[0], "--model", named, "--top=3", "--output", str(lists), *where]) == 0
    assert len(read(lists)) == 3


def test_a_run_without_a_model_says_so(run: RunRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.steps, run.state = {}, "failed"
    run.write()
    given = write(tmp_path / "rows.csv", [{"user": "a", "history": ["b"], "item": "c"}])
    command = ["predict", "last", "--input", str(given), "--output", str(tmp_path / "out.csv")]
    assert main([*command, "--workdir", str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err == (
        "error: run 20261126-100000-aaaa (failed) has trained no model; name another run, see kfrec runs\n"
    )


@pytest.mark.parametrize("named", ["last", f"{REGISTERED}@champion"])
def test_serve_prints_the_command_of_mlflows_server_for_the_version(
    named: str, run: RunRecord, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--print-only", "--workdir", str(tmp_path / "runs"), "--tracking-uri", store]
    assert main(["serve", named, *words]) == 0
    assert capsys.readouterr().out == (
        f"mlflow models serve --model-uri models:/{REGISTERED}/1 --env-manager local --host 127.0.0.1 --port 5001\n"
    )


def test_unknown_ids_are_counted_and_said(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = served.rows[0]
    rows = [known, {**known, "item": "new"}, {"user": "nobody", "history": ["x", "y"], "item": known["item"]}]
    out = tmp_path / "out.jsonl"
    given = write(tmp_path / "rows.jsonl", rows)
    assert main(["predict", f"{REGISTERED}@champion", "--input", str(given), "--output", str(out)]) == 0
    assert (
        "2 rows have ids that the model has never seen (1 of user, 2 of history, 1 of item)" in capsys.readouterr().out
    )
    assert read(out)["unknown_ids"].tolist() == [0, 1, 3]


def test_scores_of_an_earlier_call_are_replaced(served: Served, tmp_path: Path) -> None:
    given, out = write(tmp_path / "rows.csv", served.rows[:2]), tmp_path / "out.csv"
    command = ["predict", f"{REGISTERED}@champion", "--input", str(given), "--output", str(out)]
    assert main(command) == 0
    write(tmp_path / "rows.csv", served.rows[:3])
    assert main(command) == 0
    assert len(read(out)) == 3 and sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "rows.csv"]


def recommended(words: list[str], output: Path) -> pd.DataFrame:
    assert main(["recommend", f"--model={REGISTERED}@champion", f"--output={output}", *words]) == 0
    return read(output)


def newest(served: Served) -> dict[str, list[str]]:
    """All known events of each test user: the longest history and its target; none is as long as the records hold."""
    labels = pq.read_table(served.folder / "evaluation" / "predictions.parquet")["label"].to_pylist()
    found: dict[str, list[str]] = {}
    for row, label in zip(served.rows, labels, strict=True):
        events = [*row["history"], row["item"]] if label else row["history"]
        found[row["user"]] = max(found.get(row["user"], []), events, key=len)
    return found


def test_recommendations_follow_the_history_of_the_data_and_leave_it_out(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user, seen = next(iter(newest(served).items()))
    found = recommended([user, "--top=5", "--no-keep-seen"], tmp_path / "data.parquet")
    left = len(served.items) - len({*seen} & {*served.items})
    assert f"{left} candidates for {user} after {len(seen)} items" in capsys.readouterr().out
    words = [user, "--top=5", "--no-keep-seen", f"--history={','.join(seen)}"]
    by_hand = recommended(words, tmp_path / "hand.parquet")
    pd.testing.assert_frame_equal(found, by_hand)
    assert list(found.columns) == ["user", "rank", "item", "likelihood", "flag", "model", "version"]
    assert set(found["model"]) == {REGISTERED} and set(found["version"].astype(str)) == {"1"}
    assert found["rank"].tolist() == [1, 2, 3, 4, 5] and found["likelihood"].is_monotonic_decreasing
    assert not set(found["item"]) & set(seen)


def test_a_likelihood_is_the_lift_of_predict_times_the_sampling_share(served: Served, tmp_path: Path) -> None:
    user, seen = next(iter(newest(served).items()))
    found = recommended([user, "--top=1000"], tmp_path / "all.parquet")
    rows = [{"user": user, "history": seen, "item": item} for item in found["item"]]
    given, out = write(tmp_path / "r.jsonl", rows), tmp_path / "p.parquet"
    assert main(["predict", f"{REGISTERED}@champion", "--input", str(given), "--output", str(out)]) == 0
    logits = read(out)["logit"].to_numpy().astype(float)
    spec = load_feature_spec(served.folder / "tfrecord")
    vocabulary = next(each for each in spec.vocabularies if each.name == "item")
    counts = read_counts(spec, vocabulary)
    assert counts is not None
    shares = dict(zip(read_values(spec, vocabulary)[1].to_pylist(), counts.tolist(), strict=True))
    trained = (found["flag"] == "").to_numpy()
    weights = np.exp(logits) * np.array([shares[item] for item in found["item"]])
    wanted = weights[trained] / weights[trained].sum()
    given_shares = found["likelihood"].to_numpy()[trained]
    np.testing.assert_allclose(given_shares / given_shares.sum(), wanted, rtol=1e-4)
    assert found["likelihood"].sum() == pytest.approx(1)


@pytest.mark.slow
def test_all_users_get_the_lists_that_the_command_gives_each(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = recommended(["--all", "--top=3"], tmp_path / "all.parquet")
    users = found["user"].unique().tolist()
    # Users without a test sample have the history of the training data.
    assert set(users) > set(newest(served)) or set(users) == set(newest(served)) == set(served.users)
    assert set(users) == set(served.users) and f"{len(users)} users" in capsys.readouterr().out
    for user in users[:: max(1, len(users) // 5)]:
        alone = recommended([user, "--top=3"], tmp_path / "alone.parquet")
        together = found[found["user"] == user].reset_index(drop=True)
        np.testing.assert_allclose(together.pop("likelihood"), alone.pop("likelihood"), rtol=1e-4)
        pd.testing.assert_frame_equal(together, alone)


@pytest.mark.parametrize("output", ["lists.csv", "lists.jsonl.gz"])
def test_users_of_a_file_have_their_own_histories_or_those_of_the_data(
    output: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (user, seen), (other, _) = list(newest(served).items())[:2]
    named = write(tmp_path / "users.jsonl", [{"user": other}, {"user": user}])
    of_data = recommended([f"--users={named}", "--top=2"], tmp_path / output)
    assert of_data["user"].tolist() == [other, other, user, user]
    said = capsys.readouterr().out
    assert "has neither item_scores nor user_vectors and target_vectors: scoring" in said and "pairs a user" in said
    own = write(tmp_path / "own.csv", [{"user": user, "history": seen}, {"user": "nobody", "history": []}])
    given = recommended([f"--users={own}", "--top=2"], tmp_path / output)
    assert given["user"].tolist() == [user, user, "nobody", "nobody"]
    assert given["item"].tolist()[:2] == of_data["item"].tolist()[2:]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("users.csv", ["user,history", "{other},[]", "{user},", "nobody,x|y"]),
        (
            "users.jsonl",
            ['{{"user":"{other}","history":[]}}', '{{"user":"{user}"}}', '{{"user":"nobody","history":["x","y"]}}'],
        ),
        (
            "users.jsonl",
            [
                '{{"user":"{other}","history":[]}}',
                '{{"user":"{user}","history":null}}',
                '{{"user":"nobody","history":["x"]}}',
            ],
        ),
    ],
)
def test_a_blank_history_is_that_of_the_data(
    name: str, lines: list[str], served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (user, _), (other, _) = list(newest(served).items())[:2]
    alone = recommended([user, "--top=2"], tmp_path / "alone.csv")
    users = tmp_path / name
    users.write_text("\n".join(line.format(user=user, other=other) for line in lines))
    lists = recommended([f"--users={users}", "--top=2"], tmp_path / "lists.csv")
    assert lists["user"].tolist() == [other, other, user, user, "nobody", "nobody"]
    assert lists["item"].tolist()[2:4] == alone["item"].tolist()
    said = f"{users}: 1 histories are given, 1 blank ones are from the data, 1 are empty"
    assert said in capsys.readouterr().out


def test_seen_items_are_listed_if_they_were_in_the_evaluation_or_are_kept(served: Served, tmp_path: Path) -> None:
    assert load_feature_spec(served.folder / "tfrecord").keeps_seen
    user, seen = next(iter(newest(served).items()))
    for words, left_out in (([], set()), (["--keep-seen"], set()), (["--no-keep-seen"], set(seen))):
        found = recommended([user, "--top=1000", *words], tmp_path / "lists.csv")
        assert set(found["item"]) == set(served.items) - left_out


def test_items_that_were_bought_are_left_out_and_viewed_ones_are_listed(served: Served, tmp_path: Path) -> None:
    (user, seen), (other, _) = list(newest(served).items())[:2]
    first = recommended([user, "--top=3", "--keep-seen"], tmp_path / "first.csv")["item"].tolist()
    pairs = [{"user": user, "item": item} for item in (*first[:2], "gone", first[0])]
    bought = write(tmp_path / "bought.jsonl", pairs)
    words = ["--keep-seen", "--top=1000", f"--exclude={bought}"]
    assert set(recommended([user, *words], tmp_path / "one.csv")["item"]) == set(served.items) - set(first[:2])
    named = write(tmp_path / "users.csv", [{"user": user, "history": seen}, {"user": other, "history": []}])
    lists = recommended([f"--users={named}", *words], tmp_path / "lists.csv").groupby("user")["item"].agg(set)
    assert lists[user] == set(served.items) - set(first[:2]) and lists[other] == set(served.items)


def test_exclusions_without_a_user_or_an_item_are_one_line(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = write(tmp_path / "bought.jsonl", [{"user": "x", "product": "y"}])
    assert main(["recommend", "x", "--history=a", f"--model={REGISTERED}@champion", f"--exclude={given}"]) == 2
    assert f"{given}: has no column item" in capsys.readouterr().err


def test_candidates_may_come_from_a_file_and_unknown_ones_are_flagged_and_last(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = sorted({row["item"] for row in served.rows})[:3]
    given = write(tmp_path / "candidates.jsonl", [{"item": item} for item in ["new", *items]])
    words = ["nobody", "--history=,", f"--candidates={given}"]
    found = recommended(words, tmp_path / "out.jsonl")
    said = capsys.readouterr().out
    assert found["item"].tolist()[-1] == "new" and found["flag"].tolist()[-1] == "unknown"
    assert set(found["item"]) == {*items, "new"} and "4 candidates for nobody" in said
    assert "1 ids of the user and the history are unknown" in said


def test_candidates_end_and_are_boosted_as_their_file_says(served: Served, tmp_path: Path) -> None:
    items = sorted({row["item"] for row in served.rows})[:4]
    given = tmp_path / "stock.csv"
    rows = zip(
        items, ["", "1000000", "2", "1"], ["", "2026-11-28 20:00", "2026-11-28 18:00", "2027-01-01"], strict=True
    )
    given.write_text("item,boost,available_until\n" + "".join(",".join(row) + "\n" for row in rows))
    words = ["nobody", "--history=,", f"--candidates={given}"]
    found = recommended([*words, "--at=2026-11-28 19:00"], tmp_path / "out.jsonl")
    assert found["item"].tolist()[0] == items[1] and set(found["item"]) == set(items) - {items[2]}
    later = recommended([*words, "--at=2026-12-01"], tmp_path / "later.jsonl")
    assert set(later["item"]) == {items[0], items[3]}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,-1,", "row 1: boost is '-1'; give a factor above 0"),
        ("a,much,", "row 1: boost is 'much'; give a factor above 0"),
        ("a,1,soon", "row 1: available_until is 'soon'; give a time"),
        ("a,1,2001-01-01", "all items are past their available_until; give newer ones, or an earlier --at"),
    ],
)
def test_wrong_candidates_are_one_line(
    row: str, said: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "stock.csv"
    given.write_text(f"item,boost,available_until\n{row}\n")
    assert main(["recommend", "x", "--history=b", f"--model={REGISTERED}@champion", f"--candidates={given}"]) == 2
    assert f"{given}: {said}" in capsys.readouterr().err


def test_a_list_has_few_items_of_a_category(served: Served, tmp_path: Path) -> None:
    every = recommended(["nobody", "--history=,", "--top=60"], tmp_path / "every.csv")
    found = recommended(["nobody", "--history=,", "--top=60", "--per-category=1"], tmp_path / "few.csv")
    # Five categories, and one that items without metadata share.
    assert 2 <= len(found) <= 6 and found["item"][0] == every["item"][0]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["x", "--per-category=-1"], "--per-category -1 is below 0"),
        (["x", "--at=2026-11-28"], "--at is of the column available_until of --candidates; give both"),
        (["x", "--candidates=x.csv", "--at=soon"], "--at: the time: 'soon' is not a time; write it as 2013-11-01"),
        ([], "give one of USER, --all and --users FILE; given: none"),
        (["someone", "--all"], "given: USER, --all"),
        (["--all"], "--all writes a file; give --output FILE"),
        (["--all", "--output=o.csv", "--history=a"], "--history is of one user"),
        (["--users=none.csv", "--output=o.csv"], "none.csv"),
    ],
)
def test_users_are_named_in_one_way(
    words: list[str], named: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", f"--model={REGISTERED}@champion", *words]) == 2
    assert named in capsys.readouterr().err


def test_users_that_are_not_in_the_data_are_one_line(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = write(tmp_path / "users.csv", [{"user": name, "history": []} for name in ("x", "y")])
    pd.read_csv(named)[["user"]].to_csv(named, index=False)
    words = ["recommend", f"--model={REGISTERED}@champion", f"--users={named}", f"--output={tmp_path / 'o.csv'}"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "user x and 1 more: not among the" in said
    assert f"give the column history in {named}" in said
    assert not (tmp_path / "o.csv").exists()


def test_users_who_have_every_item_are_one_line(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = load_feature_spec(served.folder / "tfrecord")
    vocabulary = spec.vocabulary_of("item_trgt")
    assert vocabulary
    items = read_values(spec, vocabulary)[1].to_pylist()
    named = write(tmp_path / "users.csv", [{"user": "x", "history": items}])
    words = ["recommend", f"--model={REGISTERED}@champion", f"--users={named}", f"--output={tmp_path / 'o.csv'}"]
    assert main([*words, "--no-keep-seen"]) == 2
    told = f"no candidate is left for any of the 1 users: all {len(items):,} are in their histories; --keep-seen lists"
    assert told in capsys.readouterr().err


def test_an_output_that_is_a_link_is_followed(served: Served, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out.csv").symlink_to(tmp_path / "disk" / "scores.csv")
    for count, output in ((2, tmp_path / "disk" / "scores.csv"), (3, tmp_path / "out.csv")):
        rows = write(tmp_path / "rows.jsonl", served.rows[:count])
        assert main(["predict", f"{REGISTERED}@champion", f"--input={rows}", f"--output={output}"]) == 0
    assert (tmp_path / "out.csv").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["scores.csv"]
    assert len(read(tmp_path / "disk" / "scores.csv")) == 3


def test_an_alias_becomes_its_version(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve-manifest", f"{REGISTERED}@champion", "--name=ads"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == inference_service(REGISTERED, "1", "ads")


def test_a_manifest_follows_an_alias_and_logs_to_a_uri(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve-manifest", f"{REGISTERED}@champion", "--follow", "--log=s3://bucket/served"]
    assert main(words) == 0
    (container,) = yaml.safe_load(capsys.readouterr().out)["spec"]["predictor"]["containers"]
    assert container["args"][0] == f"{REGISTERED}@champion" and container["args"][-1] == "--log=s3://bucket/served"
    assert main(["serve-manifest", f"{REGISTERED}/1", "--follow"]) == 2
    assert "has no alias to follow; name the model as" in capsys.readouterr().err
    assert main([*words[:2], "--log=served"]) == 2
    assert "--log served: a pod's folder ends with it" in capsys.readouterr().err


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("name", ["", "Ads", "1ads", "a" * 60, "a_b", "a/b"])
def test_a_name_that_kubernetes_refuses_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve-manifest", f"{REGISTERED}/1", f"--name={name}"]) == 2
    assert capsys.readouterr().err.startswith("error: --name ")
