"""BERT's normalisation of uncased text: which words a text has, and where they are in it.

Control characters are left out, white space separates words, letters are lower-cased, accents are stripped, and each
punctuation mark and each CJK character is a word of its own.

Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", NAACL 2019,
and its released tokenizer.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

# What separates words: tab, newline, carriage return, and Unicode's white space but for control characters.
RAW_WORD = re.compile("[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# Letters and digits, or a punctuation mark.
_ASCII_WORD = re.compile("[a-z0-9]+|[^a-z0-9]")
_REPLACEMENT = "\ufffd"
# The blocks of CJK ideographs; Hangul, Hiragana and Katakana are written with spaces, or like other alphabets.
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        text: normalised.
        begins: of each character of ``text``, the position of the one that it stems from.
        ends: likewise, the position behind it and behind the accents that follow it.
    """

    text: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]


def texts_of(raw: str) -> list[str]:
    """The texts of ``words_of``, which is four times as slow for a word of ASCII."""
    if raw.isascii() and raw.isprintable():
        return _ASCII_WORD.findall(raw.lower())
    return [word.text for word in words_of(raw)]


def has_words(text: str) -> bool:
    """Whether a text has a word, and not only white space, control and format characters, and lone accents."""
    return any(texts_of(raw) for raw in RAW_WORD.findall(text))


class _Character(NamedTuple):
    """What becomes of a character.

    Attributes:
        text: lower case without accents; empty if nothing is left.
        is_word: whether it is a word of its own.
    """

    text: str
    is_word: bool


def words_of(raw: str) -> list[Word]:
    """The words within a text without white space, such as ``can't``.

    Args:
        raw: a match of ``RAW_WORD``.

    Returns:
        Words, with positions in ``raw``; none if nothing but accents and control characters is there.
    """
    words: list[tuple[list[str], list[int], list[int]]] = []
    is_open = False
    for position, character in enumerate(raw):
        text, is_word = _normalised(character)
        if not text:
            if words and unicodedata.category(character) == "Mn":  # an accent belongs to the letter before it
                words[-1][2][-1] = position + 1
            continue
        if is_word or not is_open:
            words.append(([], [], []))
        letters, begins, ends = words[-1]
        letters += text
        begins += [position] * len(text)
        ends += [position + 1] * len(text)
        is_open = not is_word
    return [Word("".join(letters), tuple(begins), tuple(ends)) for letters, begins, ends in words]


@lru_cache(maxsize=1 << 16)
def _normalised(character: str) -> _Character:
    category = unicodedata.category(character)
    if character == _REPLACEMENT or category in ("Cc", "Cf", "Co", "Cs"):
        return _Character("", False)
    letters = [each for each in unicodedata.normalize("NFD", character) if unicodedata.category(each) != "Mn"]
    text = "".join(each.lower() for each in letters)
    return _Character(text, _is_cjk(character) or (len(text) == 1 and is_punctuation(text)))


def is_punctuation(character: str) -> bool:
    """Whether a character is punctuation: that of Unicode, and all of ASCII that is neither letter, digit nor space."""
    code = ord(character)
    if code < 128:
        return 32 < code < 127 and not character.isalnum()
    return unicodedata.category(character).startswith("P")


def _is_cjk(character: str) -> bool:
    code = ord(character)
    return code >= _CJK[1][0] and any(first <= code <= last for first, last in _CJK)
