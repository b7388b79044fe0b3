"""WordPiece: each word as the fewest tokens that greedy longest match finds in a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from components.text.normalization import RAW_WORD, Word, texts_of, words_of
from components.text.special import special_of

# A token that continues a word.
CONTINUES = "##"
# Longer words are unknown, in letters.
LONGEST_WORD = 100
# Words that are held with their tokens. Texts repeat words: a dictionary look-up a word is 20 times as fast as a match.
_REMEMBERED = 1 << 19


class Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
        begins: position in the text of each token's first character.
        ends: position behind each token's last character.
    """

    ids: list[int]
    begins: list[int]
    ends: list[int]


class WordPiece:
    """Tokenizes texts; see ``components.text.normalization`` for what a word is.

    A word is split into the longest token that begins it, the longest token of the vocabulary that continues there, and
    so on; a word that cannot be split so is one unknown token.

    Source: Wu et al., "Google's Neural Machine Translation System", 2016, section 4.1, with the greedy match of BERT.

    Args:
        tokens: the vocabulary in the order of the ids; a token that continues a word begins with ``##``.
        place: of the vocabulary, for messages.

    Attributes:
        tokens: the vocabulary.
        special: ids of the special tokens.

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
        special = set(self.special.to_dict().values())
        ids = {token: number for number, token in enumerate(self.tokens) if number not in special}
        self._first = {token: number for token, number in ids.items() if not token.startswith(CONTINUES)}
        # The token ## itself is two punctuation marks, and begins no word.
        self._next = {token[2:]: number for token, number in ids.items() if token.startswith(CONTINUES) and token[2:]}
        self._longest = max(map(len, ids), default=1)
        self._ids: dict[str, tuple[int, ...]] = {}
        self._located: dict[str, tuple[tuple[int, int, int], ...]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of a text's tokens."""
        known = self._ids
        ids: list[int] = []
        for raw in RAW_WORD.findall(text):
            found = known.get(raw)
            if found is None:
                unknown = ((self.special.unknown, 0, 0),)
                found = tuple(number for word in texts_of(raw) for number, _, _ in self._match(word) or unknown)
                _remember(known, raw, found)
            ids += found
        return ids

    def locate(self, text: str) -> Tokens:
        """The tokens of a text, and where they are in it."""
        known, tokens = self._located, Tokens([], [], [])
        for match in RAW_WORD.finditer(text):
            raw, start = match.group(), match.start()
            found = known.get(raw)
            if found is None:
                found = tuple(piece for word in words_of(raw) for piece in self._pieces(word))
                _remember(known, raw, found)
            for number, begin, end in found:
                tokens.ids.append(number)
                tokens.begins.append(start + begin)
                tokens.ends.append(start + end)
        return tokens

    def knows(self, word: str) -> bool:
        """Whether tokens spell a normalised word."""
        return bool(self._match(word))

    def _pieces(self, word: Word) -> list[tuple[int, int, int]]:
        """Id, begin and end of each token of a word."""
        matched = self._match(word.text)
        if not matched:
            return [(self.special.unknown, word.begins[0], word.ends[-1])]
        return [(number, word.begins[first], word.ends[last - 1]) for number, first, last in matched]

    def _match(self, word: str) -> list[tuple[int, int, int]]:
        """Id and place of each token in a normalised word; none if it is unknown."""
        if len(word) > LONGEST_WORD:
            return []
        matched, begin, among = [], 0, self._first
        while begin < len(word):
            for end in range(min(len(word), begin + self._longest), begin, -1):
                number = among.get(word[begin:end])
                if number is not None:
                    break
            else:
                return []
            matched.append((number, begin, end))
            begin, among = end, self._next
        return matched


def _remember(known: dict[str, tuple], raw: str, found: tuple) -> None:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[raw] = found
