"""WordPiece: each word as the fewest tokens that greedy longest match finds in a vocabulary.

Texts are normalised as BERT's uncased ones: control characters are left out, white space separates words, letters are
lower-cased, accents are stripped, and each punctuation mark and each CJK character is a word of its own.

Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", NAACL 2019,
and its released tokenizer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tokenizers import Tokenizer
from tokenizers.models import WordPiece as Matching
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from components.text.special import UNKNOWN, special_of

# What separates words: tab, newline, carriage return, and Unicode's white space but for control characters.
RAW_WORD = re.compile("[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# A token that continues a word.
CONTINUES = "##"
# Longer words are unknown, in letters.
LONGEST_WORD = 100
# Raw words that are held with their tokens: texts repeat words, which makes this 4 times as fast as whole texts.
_REMEMBERED = 1 << 19
_NORMALIZER, _SPLITTER = BertNormalizer(), BertPreTokenizer()


class Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
        begins: position in the text of each token's first character.
        ends: position behind each token's last character, and behind the accents that follow it.
    """

    ids: list[int]
    begins: list[int]
    ends: list[int]


def words_of(raw: str) -> list[str]:
    """The normalised words within a text without white space, such as ``can't``; maybe none."""
    return [word for word, _ in _SPLITTER.pre_tokenize_str(_NORMALIZER.normalize_str(raw))]


def has_words(text: str) -> bool:
    """Whether a text has a word, and not only white space, control and format characters, and lone accents."""
    return bool(words_of(text))


class WordPiece:
    """Tokenizes texts.

    A word is split into the longest token that begins it, the longest token of the vocabulary that continues there, and
    so on; a word that cannot be split so is one unknown token.

    Source: Wu et al., "Google's Neural Machine Translation System", 2016, section 4.1, with the greedy match of BERT.

    Args:
        tokens: the vocabulary in the order of the ids; a token that continues a word begins with ``##``.
        place: of the vocabulary, for messages.

    Raises:
        KfrecError: a special token is missing.

    Examples:
        >>> pieces = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!"])
        >>> pieces.encode("Unable!")
        [5, 6, 7]
        >>> pieces.locate("  Unable!")
        Tokens(ids=[5, 6, 7], begins=[2, 4, 8], ends=[4, 8, 9])
    """

    def __init__(self, tokens: Sequence[str], place: str = "vocabulary") -> None:
        self.tokens = tuple(tokens)
        self.special = special_of(self.tokens, place)
        ids = {token: number for number, token in enumerate(self.tokens)}
        self._tokenizer = Tokenizer(Matching(ids, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD))
        self._tokenizer.normalizer, self._tokenizer.pre_tokenizer = _NORMALIZER, _SPLITTER
        self._tokens = lru_cache(_REMEMBERED)(self._tokens_of)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens."""
        ids: list[int] = []
        for raw in RAW_WORD.findall(text):
            ids += self._tokens(raw).ids
        return ids

    def locate(self, text: str) -> Tokens:
        """The tokens of a text, and where they are in it."""
        tokens = Tokens([], [], [])
        for match in RAW_WORD.finditer(text):
            found, start = self._tokens(match.group()), match.start()
            tokens.ids.extend(found.ids)
            tokens.begins.extend(start + begin for begin in found.begins)
            tokens.ends.extend(start + end for end in found.ends)
        return tokens

    def knows(self, word: str) -> bool:
        """Whether tokens spell a normalised word."""
        return self.special.unknown not in self._tokens(word).ids

    def _tokens_of(self, raw: str) -> Tokens:
        """The tokens of a text without white space."""
        encoding = self._tokenizer.encode(raw)
        ends = []
        for _, end in encoding.offsets:
            while end < len(raw) and unicodedata.category(raw[end]) == "Mn":  # an accent
                end += 1
            ends.append(end)
        return Tokens(encoding.ids, [begin for begin, _ in encoding.offsets], ends)
