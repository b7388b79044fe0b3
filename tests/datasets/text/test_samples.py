"""Samples of a corpus: whose documents they are, and what they do not depend on."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from components.artifacts import open_artifact
from components.feature_spec import load_feature_spec
from components.text.special import NAMES
from components.text.wordpiece import WordPiece
from tests.datasets.amazon_reviews.raw import vocabulary
from tests.datasets.text.corpus import columns_of, preprocess, random_document, raw_folder, text_of, tokens_of

DOCUMENTS = [random_document(seed) for seed in range(60)]
SHORT = {"max_seq_length": 48}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raw_folder(tmp_path_factory.mktemp("raw") / "raw", a=text_of(DOCUMENTS[:40]), b_gz=text_of(DOCUMENTS[40:]))


def digest(output: Path) -> str:
    return open_artifact(output).digest


def test_the_samples_hold_the_documents_in_order(raw: Path, tmp_path: Path) -> None:
    counts = preprocess(raw, tmp_path / "out", **SHORT, test_share=0.2, short_share=0.0)
    known = vocabulary(tmp_path / "out", "tokens")
    pieces = WordPiece([known[number] for number in range(len(known))])
    documents = [[known[number] for line in document for number in pieces.encode(line)] for document in DOCUMENTS]
    found = {split: tokens_of(tmp_path / "out", split) for split in ("train", "test")}
    assert {split: len(pairs) for split, pairs in found.items()} == {split: counts[split] for split in found}
    for split, pairs in found.items():
        # Every sample is from one document. A short sentence may join the first segment after a longer one did not.
        samples = [Counter([*first, *second]) for first, second in pairs]
        assert all(any(sample <= document for document in map(Counter, documents)) for sample in samples), split
    assert counts["documents"] == 60
    kept = sum(len(part) for part in chain.from_iterable(chain.from_iterable(found.values())))
    assert kept == counts["tokens"] and kept + counts["cut_tokens"] == sum(map(len, documents))


def test_a_document_is_in_one_split(tmp_path: Path) -> None:
    documents = [[f"word{number} " * 6] * 5 for number in range(80)]
    raw = raw_folder(tmp_path / "raw", a=text_of(documents))
    preprocess(raw, tmp_path / "out", max_seq_length=16, test_share=0.3)
    words = {
        split: {"".join(t.removeprefix("##") for t in [*first, *second]).split("word")[1] for first, second in
                tokens_of(tmp_path / "out", split)}
        for split in ("train", "test")
    }  # fmt: skip
    assert not words["train"] & words["test"]
    assert 10 < len(words["test"]) < 40


def test_at_least_one_document_is_tested_on(raw: Path, tmp_path: Path) -> None:
    counts = preprocess(raw, tmp_path / "out", **SHORT, test_share=0.0)
    assert 0 < counts["test"] <= 4


def test_the_specification_describes_tokens_and_vocabulary(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "out", **SHORT)
    spec, known = load_feature_spec(tmp_path / "out"), vocabulary(tmp_path / "out", "tokens")
    assert [known[number] for number in range(5)] == list(NAMES)
    assert spec.channels == {"tokens": ("input_ids", "segment_ids")} and spec.targets == ()
    assert columns_of(tmp_path / "out", "train") == ["input_ids", "segment_ids"]
    assert {f.name: (f.dtype, f.cardinality, f.length) for f in spec.features.values()} == {
        "input_ids": ("int32", len(known) - 1, 48),
        "segment_ids": ("int8", 1, 48),
    }
    assert spec.vocabulary_of("input_ids").exact and spec.metadata["tokens"]["mask"] == 4


def test_the_seed_decides_on_splits_and_samples(raw: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        preprocess(raw, tmp_path / name, **SHORT, seed=seed)
    assert digest(tmp_path / "one") == digest(tmp_path / "again") != digest(tmp_path / "two")


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_as_one(raw: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        preprocess(raw, tmp_path / str(workers), **SHORT, workers=workers, bytes_per_partition=1500)
    assert len(list((tmp_path / "1" / "train").iterdir())) > 4
    assert digest(tmp_path / "1") == digest(tmp_path / "2")


def test_the_samples_do_not_depend_on_the_size_of_a_partition(raw: Path, tmp_path: Path) -> None:
    found = []
    for size in (1500, 1 << 20):
        preprocess(raw, tmp_path / str(size), **SHORT, bytes_per_partition=size)
        found.append({split: tokens_of(tmp_path / str(size), split) for split in ("train", "test")})
    assert found[0] == found[1]


def test_a_long_document_is_cut_into_pieces_of_one_split(tmp_path: Path) -> None:
    tokens = "\n".join([*NAMES, "red", "lamp", "green", "clock", "."])
    raw = raw_folder(tmp_path / "raw", a=text_of([["red lamp."] * 500, ["green clock."]]), vocab=tokens)
    preprocess(raw, tmp_path / "out", **SHORT, bytes_per_partition=100)
    lamp = {"red", "lamp"}
    splits = {
        split: [lamp <= {*first, *second} for first, second in tokens_of(tmp_path / "out", split)]
        for split in ("train", "test")
    }
    assert sorted(map(set, splits.values()), key=str) == [{False}, {True}]


def test_gzip_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    text = text_of(DOCUMENTS)
    plain = raw_folder(tmp_path / "plain", a=text)
    windows = raw_folder(tmp_path / "windows", a="\ufeff" + text.replace("\n", "\r\n").replace(".\r\n", ". \r\n"))
    for name, folder in (("one", plain), ("two", windows)):
        preprocess(folder, tmp_path / name, **SHORT)
    assert tokens_of(tmp_path / "one", "train") == tokens_of(tmp_path / "two", "train")


def test_a_line_without_words_ends_a_document(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", a="One.\n\u200b\nTwo.\n \0\n!\n\ufeff \u0301\n", b="\u200b")
    counts = preprocess(raw, tmp_path / "out", max_seq_length=16)
    assert (counts["documents"], counts["train"], counts["test"]) == (3, 2, 1)


@pytest.mark.parametrize("name", ["vocab", "Vocab"])
def test_a_vocab_txt_beside_the_texts_is_the_vocabulary(name: str, tmp_path: Path) -> None:
    tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "lamp", "is", "red", "."]
    beside = raw_folder(tmp_path / "raw", a=text_of(DOCUMENTS), **{name: "".join(f"{token}\n" for token in tokens)})
    preprocess(beside, tmp_path / "out", **SHORT)
    spec = load_feature_spec(tmp_path / "out")
    assert list(vocabulary(tmp_path / "out", "tokens").values()) == tokens
    assert spec.metadata["tokens"] == {"pad": 0, "unknown": 2, "cls": 3, "sep": 4, "mask": 5}
    assert spec.metadata["encoding"]["vocabulary"] == "given"
    assert 0.3 < spec.metadata["encoding"]["out_of_vocabulary_rate"] < 0.7


@pytest.mark.parametrize(
    ("words", "warns"),
    [
        ("the lamp .", True),
        ("the lamp clock is red green old and not very bright .", False),
    ],
)
def test_many_words_that_a_given_vocabulary_lacks_are_warned_of(
    words: str, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocab = "\n".join([*NAMES, *words.split()])
    preprocess(raw_folder(tmp_path / "raw", a=text_of(DOCUMENTS), vocab=vocab), tmp_path / "out", **SHORT)
    assert ("vocab.txt, and models read each of them as [UNK]" in capsys.readouterr().out) == warns


def test_a_vocabulary_is_kept_until_too_many_words_are_unknown(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "first", **SHORT)
    newer = raw_folder(tmp_path / "newer", a=text_of([[*document, "ζ" * 9] for document in DOCUMENTS]))
    for limit, kind in ((1.0, "kept"), (0.001, "refitted")):
        output = tmp_path / kind
        preprocess(newer, output, **SHORT, workflow=str(tmp_path / "first"), out_of_vocabulary_limit=limit)
        assert load_feature_spec(output).metadata["encoding"]["vocabulary"] == kind
        same = vocabulary(output, "tokens") == vocabulary(tmp_path / "first", "tokens")
        assert same == (kind == "kept")


def test_longer_samples_of_the_same_vocabulary_follow(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "short", **SHORT)
    preprocess(raw, tmp_path / "long", max_seq_length=96, workflow=str(tmp_path / "short"))
    assert vocabulary(tmp_path / "long", "tokens") == vocabulary(tmp_path / "short", "tokens")
    assert load_feature_spec(tmp_path / "long").features["input_ids"].length == 96
