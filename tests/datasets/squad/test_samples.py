"""Windows of questions: their places, targets and masks, and the texts beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from components.artifacts import open_artifact
from components.datasets.squad.preprocess import find_questions
from components.datasets.squad.windows import Shape, Windows, tokens_within
from components.feature_spec import load_feature_spec
from components.feature_spec.side_tables import side_tables
from components.text.questions import QuestionTables
from components.text.special import SpecialTokens
from components.text.vocabulary import tokenizer_of
from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.squad.questions import (
    CONTEXT,
    FACTS,
    article,
    articles,
    context_of,
    preprocess,
    question,
    raw_folder,
)

SMALL = {"max_seq_length": 24, "doc_stride": 4, "max_query_length": 8}
SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("squad")
    preprocess(raw_folder(folder / "raw", train=articles(6), dev=articles(2)), folder / "out", **SMALL)
    return folder / "out"


def answered(output: Path, split: str) -> dict[int, list[str]]:
    """The texts at the targets of each question's windows, read from the side table."""
    tables = QuestionTables(side_tables(output))
    texts: dict[int, list[str]] = {}
    for row in samples(output, split):
        found = texts.setdefault(row["question"], [])
        if row["start_position"]:
            shift = row["first_token"] - row["context_begin"]
            found.append(tables.text(row["question"], row["start_position"] + shift, row["end_position"] + shift))
    return texts


@pytest.mark.parametrize(("tokens", "query", "expected"), [
    (0, 3, [(0, 0)]),
    (4, 3, [(0, 4)]),
    (10, 3, [(0, 10)]),
    (11, 3, [(0, 10), (4, 7)]),
    (20, 3, [(0, 10), (4, 10), (8, 10), (12, 8)]),
    (5, 12, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
])  # fmt: skip
def test_a_long_context_is_several_windows(tokens: int, query: int, expected: list[tuple[int, int]]) -> None:
    assert list(Shape(16, 4, 64).spans(tokens, query)) == expected


def test_a_window_is_question_and_context_and_its_answer() -> None:
    windows = Windows(Shape(12, 3, 2), SpecialTokens(0, 1, 2, 3, 4))
    windows.add(7, [11, 12, 13], [20, 21, 22, 23, 24, 25, 26], (4, 5))
    windows.add(8, [11], [20], None)
    columns = {name: values.tolist() for name, values in windows.columns().items()}
    assert columns["input_ids"] == [
        [2, 11, 12, 3, 20, 21, 22, 23, 24, 25, 26, 3],
        [2, 11, 3, 20, 3, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert columns["segment_ids"] == [[0] * 4 + [1] * 8, [0, 0, 0, 1, 1] + [0] * 7]
    assert columns["p_mask"] == [[0, 1, 1, 1] + [0] * 7 + [1], [0, 1, 1, 0] + [1] * 8]
    assert [columns[name] for name in ("start_position", "end_position", "is_impossible")] == [[8, 0], [9, 0], [0, 1]]
    assert [columns[name] for name in ("question", "first_token", "context_tokens", "context_begin")] == [
        [7, 8], [0, 0], [7, 1], [4, 3],
    ]  # fmt: skip


def test_an_answer_counts_only_in_windows_that_hold_all_of_it() -> None:
    windows = Windows(Shape(9, 2, 2), SpecialTokens(0, 1, 2, 3, 4))
    windows.add(0, [11, 12], list(range(20, 28)), (3, 4))
    columns = windows.columns()
    assert columns["first_token"].tolist() == [0, 2, 4]
    assert columns["start_position"].tolist() == [0, 5, 0] and columns["is_impossible"].tolist() == [1, 0, 1]


@pytest.mark.parametrize(("begin", "end", "tokens"), [
    (0, 4, (0, 0)), (5, 9, (1, 1)), (2, 7, (0, 1)), (4, 5, None), (0, 12, (0, 2)), (10, 20, (2, 2)), (30, 31, None),
])  # fmt: skip
def test_the_tokens_of_an_answer_are_those_with_its_characters(
    begin: int, end: int, tokens: tuple[int, int] | None
) -> None:
    assert tokens_within(np.array([0, 5, 10]), np.array([4, 9, 12]), begin, end) == tokens


def test_the_targets_are_the_answers_in_the_original_text(output: Path) -> None:
    tables = QuestionTables(side_tables(output))
    for split in ("validation", "test"):
        texts = answered(output, split)
        for number, found in texts.items():
            assert set(found) == set(tables.answers[number][:1]), split
        assert {text for found in texts.values() for text in found} == set(FACTS)


def test_files_of_dev_are_the_test_split_and_articles_are_in_one_split(output: Path) -> None:
    spec, tables = load_feature_spec(output), QuestionTables(side_tables(output))
    assert len(tables.ids) == 4 * 3 and set(tables.questions) <= {
        f"What is {n}-{m}?" for n in range(6) for m in range(4)
    }
    numbers = {split: {row["question"] for row in samples(output, split)} for split in SPLITS}
    assert numbers == {"test": set(range(8)), "validation": set(range(8, 12)), "train": set(range(12, 32))}
    assert spec.metadata["encoding"]["version_2"] is True
    assert tables.answers[3] == [] and tables.answers[0] == ["red"]


@pytest.mark.parametrize("name", [
    "DEV-v2.0", "development", "test-context-de", "quoref-dev-v0.1", "GermanQuAD_test", "valid", "nl_validation2",
])  # fmt: skip
def test_files_to_test_on_are_known_by_their_names(name: str, tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", **{name: articles(2), "contest": articles(6), "latest-train": articles(6)})
    trained, tested = find_questions(open_artifact(raw))
    assert ([path.name for path in tested], len(trained)) == ([f"{name}.json"], 2)


def test_the_specification_has_targets_places_and_mask(output: Path) -> None:
    spec = load_feature_spec(output)
    assert spec.channels == {
        "label": ("start_position", "end_position", "is_impossible"),
        "tokens": ("input_ids", "segment_ids"),
        "p_mask": ("p_mask",),
        "group": ("question", "first_token", "context_tokens", "context_begin"),
    }
    assert pq.read_schema(output / "test" / "part.0.parquet").names == [
        "input_ids", "segment_ids", "p_mask", *spec.channels["label"], *spec.channels["group"],
    ]  # fmt: skip
    assert {spec.features[name].length for name in ("input_ids", "segment_ids", "p_mask")} == {24}
    assert tokenizer_of(spec).encode("the lamp")


def test_one_file_is_divided_by_articles(tmp_path: Path) -> None:
    counts = preprocess(raw_folder(tmp_path / "raw", dev_gz=articles(10)), tmp_path / "out", **SMALL, test_share=0.3)
    numbers = {split: len({row["question"] for row in samples(tmp_path / "out", split)}) for split in SPLITS}
    assert numbers == {"train": 24, "validation": 4, "test": 12} and counts["questions"] == 40


def test_texts_of_few_articles_are_divided_instead(tmp_path: Path) -> None:
    (whole,) = [article("all", context="")]
    whole["paragraphs"] = [entry["paragraphs"][0] for entry in articles(10)]
    preprocess(raw_folder(tmp_path / "raw", train=[whole]), tmp_path / "out", **SMALL, test_share=0.3)
    numbers = {split: len({row["question"] for row in samples(tmp_path / "out", split)}) for split in SPLITS}
    assert numbers == {"train": 24, "validation": 4, "test": 12}


def test_articles_that_share_a_context_are_in_one_split(tmp_path: Path) -> None:
    """Of some sets each question is an article, so contexts come again."""
    listed = [article(f"t{n}", question(f"{n}-{time}", "red")) for time in range(3) for n in range(24)]
    for n in range(0, 24, 2):  # and some have a context of another one besides
        listed[n]["paragraphs"].append(article(f"t{n + 1}", question(f"{n}-again", "red"))["paragraphs"][0])
    preprocess(raw_folder(tmp_path / "raw", train=listed * 2), tmp_path / "out", **SMALL)
    tables = QuestionTables(side_tables(tmp_path / "out"))
    pairs = {
        split: {int(tables.ids[row["question"]].split("-")[0]) // 2 for row in samples(tmp_path / "out", split)}
        for split in ("validation", "test")
    }
    assert all(pairs.values()) and not pairs["validation"] & pairs["test"]
    assert len(tables.ids) == 14 * sum(map(len, pairs.values()))
    contexts = pq.read_table(side_tables(tmp_path / "out")["contexts"])["context"].to_pylist()
    assert len(contexts) == len(set(contexts)) == 2 * sum(map(len, pairs.values()))


def test_a_context_that_a_dev_file_repeats_is_kept_once(tmp_path: Path) -> None:
    one = article("one", question("a", "red"), question("b", "Anna Bell"))["paragraphs"][0]
    body = [{"paragraphs": [{**one, "qas": [each]} for each in one["qas"]]}] * 2
    preprocess(raw_folder(tmp_path / "raw", train=articles(12), dev=body), tmp_path / "out", **SMALL)
    tables = QuestionTables(side_tables(tmp_path / "out"))
    contexts = pq.read_table(side_tables(tmp_path / "out")["contexts"])["context"].to_pylist()
    assert tables.ids[:4] == ["a", "b"] * 2 and contexts.count(one["context"]) == 1
    assert answered(tmp_path / "out", "test")[1][0] == "Anna Bell"


def test_many_windows_of_a_question_are_written_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = raw_folder(tmp_path / "raw", train=articles(12))
    preprocess(raw, tmp_path / "whole", **SMALL)
    monkeypatch.setattr("components.datasets.squad.pipeline._AT_A_TIME", 3)
    preprocess(raw, tmp_path / "parts", **SMALL)
    for split in SPLITS:
        assert samples(tmp_path / "parts", split) == samples(tmp_path / "whole", split)
    assert pq.ParquetFile(tmp_path / "parts" / "train" / "part.2.parquet").num_row_groups > 2


@pytest.mark.parametrize(("answer", "warns"), [("is red.", False), (" red", False), ("re", True)])
def test_answers_that_begin_or_end_within_a_word_are_warned_of(
    answer: str, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = [article(f"t{n}", question(f"q{n}", answer)) for n in range(3)]
    preprocess(raw_folder(tmp_path / "raw", train=body), tmp_path / "out", **SMALL)
    said = capsys.readouterr().out
    assert ("3 of 3 answers begin or end within a word" in said) == ("a lower vocab_size" in said) == warns


@pytest.mark.parametrize(("tested", "warns"), [("CUAD_test", True), ("other_test", False)])
def test_texts_that_are_trained_and_tested_on_are_warned_of(
    tested: str, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = articles(2) if warns else [article("new", question("new", "red"))]
    preprocess(raw_folder(tmp_path / "raw", CUAD=articles(12), **{tested: body}), tmp_path / "out", **SMALL)
    assert ("2 of 2 texts of CUAD_test.json are also in the files to train on" in capsys.readouterr().out) == warns


@pytest.mark.parametrize(("length", "warns"), [(24, True), (64, False)])
def test_answers_that_no_window_holds_are_warned_of(
    length: int, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = CONTEXT.rstrip(".")
    body = [article(f"t{n}", question(f"q{n}", answer), question(f"r{n}", "red")) for n in range(3)]
    preprocess(raw_folder(tmp_path / "raw", train=body), tmp_path / "out", **{**SMALL, "max_seq_length": length})
    assert ("3 of 6 answers are in no window" in capsys.readouterr().out) == warns


def test_half_of_a_surrogate_pair_is_replaced_and_moves_no_answer(tmp_path: Path) -> None:
    half = "\ud83d"
    context = f"{half} {CONTEXT}"
    body = [article(half, question(half, "red", context, question=f"What {half}?"), context=context)]
    body[0]["paragraphs"][0]["qas"][0]["answers"].append({"text": half, "answer_start": 0})
    preprocess(raw_folder(tmp_path / "raw", train=articles(12), dev=body), tmp_path / "out", **SMALL)
    tables = QuestionTables(side_tables(tmp_path / "out"))
    assert (tables.ids[0], tables.questions[0], tables.answers[0]) == ("\ufffd", "What \ufffd?", ["red", "\ufffd"])
    assert answered(tmp_path / "out", "test")[0][0] == "red"


def test_null_is_as_a_missing_field(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"id": None, "answers": None, "is_impossible": True}
    body = [article("t", question("a", None, **fields), question("b", "red", is_impossible=None))]
    preprocess(raw_folder(tmp_path / "raw", train=articles(12), dev=body), tmp_path / "out", **SMALL)
    tables = QuestionTables(side_tables(tmp_path / "out"))
    assert (tables.ids[:2], tables.answers[:2]) == (["", "b"], [[], ["red"]])


def test_questions_that_all_have_answers_are_version_1(tmp_path: Path) -> None:
    body = [article(f"t{n}", question(f"q{n}", "red")) for n in range(3)]
    for each in (qa for entry in body for qa in entry["paragraphs"][0]["qas"]):
        del each["is_impossible"]
    preprocess(raw_folder(tmp_path / "raw", train=body), tmp_path / "out", **SMALL)
    assert load_feature_spec(tmp_path / "out").metadata["encoding"]["version_2"] is False


def test_the_vocabulary_of_a_pre_training_is_kept(output: Path, tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=articles(4))
    preprocess(raw, tmp_path / "out", **SMALL, workflow=str(output))
    assert tokenizer_of(load_feature_spec(tmp_path / "out")).tokens == tokenizer_of(load_feature_spec(output)).tokens
    assert load_feature_spec(tmp_path / "out").metadata["encoding"]["vocabulary"] == "kept"


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=articles(12))
    for workers in (1, 2):
        preprocess(raw, tmp_path / str(workers), **SMALL, workers=workers, questions_per_partition=8)
    digests: list[Any] = [open_artifact(tmp_path / name).digest for name in ("1", "2")]
    assert digests[0] == digests[1] and len(list((tmp_path / "1" / "train").iterdir())) > 2


def test_texts_are_the_same_whatever_the_size_of_a_partition(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=articles(12))
    found = []
    for size in (1, 1000):
        preprocess(raw, tmp_path / str(size), **SMALL, questions_per_partition=size)
        texts = {split: answered(tmp_path / str(size), split) for split in ("validation", "test")}
        found.append((texts, samples(tmp_path / str(size), "train")))
    assert found[0] == found[1]
    contexts = pq.read_table(tmp_path / "1" / "side_tables" / "contexts.parquet")["context"].to_pylist()
    assert set(contexts) < {context_of(f"t{n}") for n in range(12)}
