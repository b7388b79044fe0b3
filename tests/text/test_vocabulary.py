"""Vocabularies of tokens: given files, and what a specification says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec, load_feature_spec
from components.scoring import ExportedModel, scoring_translation
from components.scoring.translation import require_exact_vocabularies
from components.text.special import NAMES, SpecialTokens, special_tokens
from components.text.vocabulary import INPUT_IDS, read_earlier, read_vocab_txt, tokenizer_of, write_vocabulary
from components.text.wordpiece import WordPiece
from components.text.writing import CHANNELS, token_features, token_metadata

TOKENS = [*NAMES, "a", "##b"]


def spec(folder: Path, tokens: list[str]) -> FeatureSpec:
    folder.mkdir()
    pieces = WordPiece(tokens)
    write_vocabulary(tokens, folder)
    features = {feature.name: feature for feature in token_features(pieces, 16)}
    made = FeatureSpec(features, {}, CHANNELS, token_metadata(pieces), folder)
    (folder / "feature_spec.yaml").write_text(made.to_yaml())
    return load_feature_spec(folder)


def model(known: FeatureSpec) -> ExportedModel:
    return ExportedModel(known.folder, known, {}, (INPUT_IDS,), {}, lambda **_: {})


def test_a_specification_has_the_special_tokens_and_the_tokenizer(tmp_path: Path) -> None:
    made = spec(tmp_path / "data", TOKENS)
    assert special_tokens(made) == SpecialTokens(0, 1, 2, 3, 4)
    assert made.features[INPUT_IDS] == Feature(INPUT_IDS, "int32", 6, 16)
    assert tokenizer_of(made).encode("ab") == [5, 6]
    assert read_earlier(str(made.folder), tmp_path / "scratch") == TOKENS


def test_samples_without_special_tokens_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: metadata has tokens None; prepare the texts"):
        special_tokens(FeatureSpec({}, {}, {}, {}, tmp_path))


def test_the_same_vocabulary_needs_no_translation(tmp_path: Path) -> None:
    ours, theirs = (spec(tmp_path / name, TOKENS) for name in ("ours", "theirs"))
    assert scoring_translation(ours, model(theirs)) == {}
    require_exact_vocabularies(ours, theirs)


@pytest.mark.parametrize("other", [[*TOKENS, "c"], [*NAMES, "##b", "a"]])
def test_another_vocabulary_is_refused_and_not_translated(other: list[str], tmp_path: Path) -> None:
    ours, theirs = spec(tmp_path / "ours", TOKENS), spec(tmp_path / "theirs", other)
    line = r"ours/vocabulary/tokens\.parquet: is another vocabulary of tokens .* prepare the data with the model's"
    with pytest.raises(KfrecError, match=line):
        scoring_translation(ours, model(theirs))
    with pytest.raises(KfrecError, match=line):
        require_exact_vocabularies(ours, theirs)


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    return path


def test_a_vocab_txt_is_a_token_a_line(tmp_path: Path) -> None:
    text = "\r\n".join([*TOKENS, "é"]) + "\r\n\n"
    assert read_vocab_txt(written(tmp_path, text.encode())) == [*TOKENS, "é"]
    assert read_vocab_txt(written(tmp_path, text.encode("utf-8-sig"))) == [*TOKENS, "é"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff", "not UTF-8 text; write one token a line, in UTF-8"),
        ("\n".join([*TOKENS, "", "x"]).encode(), "line 8 is empty; write one token a line, since lines are ids"),
        ("\n".join([*TOKENS, "a"]).encode(), "'a' is in lines 6 and 8; a token has one id, remove the second"),
        ("\n".join(TOKENS[:4]).encode(), r"has no token \[MASK\]; take the vocabulary of a BERT or ELECTRA model"),
        (b"", r"has no token \[PAD\]"),
    ],
)
def test_a_bad_vocab_txt_is_one_line(content: bytes, line: str, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=rf"vocab\.txt: {line}"):
        read_vocab_txt(written(tmp_path, content))


def test_a_folder_without_tokens_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="no vocabulary here"):
        read_earlier(str(tmp_path), tmp_path / "scratch")
