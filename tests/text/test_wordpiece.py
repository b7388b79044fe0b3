"""WordPiece word by word against whole texts, and where an accent belongs."""

from __future__ import annotations

from random import Random

import pytest
import tokenizers

from components.errors import KfrecError
from components.text.special import NAMES
from components.text.wordpiece import WordPiece, words_of

TOKENS = (
    *NAMES, "un", "##aff", "##able", "runs", "a", "b", "c", "##a", "##b", "##c", "##1", "1", "$", ".", ",", "'", "-",
    "[", "]", "sep", "e", "##e", "cafe", "中", "文", "ж", "##ж", "naive", "é",
)  # fmt: skip
PIECES = WordPiece(TOKENS)


def named(text: str) -> list[str]:
    return [TOKENS[number] for number in PIECES.encode(text)]


def located(text: str) -> list[str]:
    tokens = PIECES.locate(text)
    return [text[begin:end] for begin, end in zip(tokens.begins, tokens.ends, strict=True)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("UnAffAble runs.", ["un", "##aff", "##able", "runs", "."]),
        ("unaffxable", ["[UNK]"]),
        ("Café, naïve", ["cafe", ",", "naive"]),
        ("cafe\u0301", ["cafe"]),
        ("a-b's", ["a", "-", "b", "'", "[UNK]"]),
        ("$1.1", ["$", "1", ".", "1"]),
        ("中文a", ["中", "文", "a"]),
        ("a\x00b\u200bc\ufffd", ["a", "##b", "##c"]),
        ("a\u00a0b\u3000c", ["a", "b", "c"]),
        (" \t\r\n", []),
        ("", []),
        ("\u0301", []),
        ("a" * 100, ["a", *["##a"] * 99]),
        ("a" * 101, ["[UNK]"]),
        ("[SEP]", ["[", "sep", "]"]),
    ],
)
def test_a_text_becomes_tokens(text: str, tokens: list[str]) -> None:
    assert named(text) == tokens
    assert [TOKENS[number] for number in PIECES.locate(text).ids] == tokens


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("  Unaffable  runs.", ["Un", "aff", "able", "runs", "."]),
        ("Cafe\u0301 a", ["Cafe\u0301", "a"]),
        ("x\u200b unaffQ b", ["x", "unaffQ", "b"]),
        ("中a文", ["中", "a", "文"]),
    ],
)
def test_the_tokens_are_found_in_the_original_text(text: str, parts: list[str]) -> None:
    assert located(text) == parts


def test_words_are_the_same_the_second_time() -> None:
    assert PIECES.locate("runs, runs") == ([8, 19, 8], [0, 4, 6], [4, 5, 10])
    assert PIECES.encode("runs") == PIECES.encode("runs") == [8]


@pytest.mark.parametrize("missing", NAMES)
def test_a_vocabulary_without_a_special_token_is_one_line(missing: str) -> None:
    with pytest.raises(KfrecError, match=rf"words\.txt: has no token \{missing[:-1]}\]; take the vocabulary of a BERT"):
        WordPiece([token for token in TOKENS if token != missing], "words.txt")


def test_padding_is_the_first_token() -> None:
    with pytest.raises(KfrecError, match=r"words\.txt: \[PAD\] is in line 2; make it the first, since 0 is padding"):
        WordPiece([TOKENS[1], TOKENS[0], *TOKENS[2:]], "words.txt")


# Letters with and without accents, punctuation, white space, controls, ideographs, Hangul, private use, emoji.
CHARACTERS = [
    chr(code)
    for first, last in ((1, 0x500), (0x1E00, 0x2100), (0x3000, 0x3100), (0x4E00, 0x4E20), (0xAC00, 0xAC20))
    for code in range(first, last)
] + [chr(code) for code in (0x200B, 0x200D, 0xFEFF, 0xE000, 0x1F600, 0xF900, 0x2F800)]


def test_the_ids_are_those_of_the_tokenizers_package() -> None:
    alphabet = sorted({letter for each in CHARACTERS for word in words_of(each) for letter in word})
    tokens = [
        *NAMES,
        *dict.fromkeys(alphabet),
        *(f"##{letter}" for letter in alphabet if letter.isalpha()),
        "the",
        "##ing",
    ]
    theirs = tokenizers.BertWordPieceTokenizer({token: number for number, token in enumerate(tokens)})
    ours, random = WordPiece(tokens), Random(1)
    for number in range(4000):
        text = "".join(random.choice(CHARACTERS) for _ in range(random.randint(0, 12)))
        if number % 2:
            text = "".join(letter + " " * (random.random() < 0.2) for letter in f"the {text}ing")
        expected = theirs.encode(text, add_special_tokens=False)
        tokens_here = ours.locate(text)
        assert tokens_here.ids == ours.encode(text) == expected.ids, ascii(text)
        for place, (begin, end) in zip(
            zip(tokens_here.begins, tokens_here.ends, strict=True), expected.offsets, strict=True
        ):
            # An accent after a letter belongs to it here, so that an answer keeps it.
            assert place[0] == begin and place[1] >= end, ascii(text)
