"""How well the text of an answer matches the accepted ones: exact match and F1 of words.

Both ignore case, punctuation, articles and white space, and take the best of the accepted answers. A question without
an answer accepts the empty text alone.

Source: Rajpurkar et al., "Know What You Don't Know: Unanswerable Questions for SQuAD", ACL 2018, and its official
evaluation, version 2.0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)


def normal_words(text: str) -> list[str]:
    """The words of an answer that count.

    Examples:
        >>> normal_words("The  Bronx, N.Y.")
        ['bronx', 'ny']
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def answer_match(answer: str, accepted: Sequence[str]) -> tuple[float, float]:
    """Exact match, 0 or 1, and F1, from 0 to 1.

    F1 is the harmonic mean of precision and recall of the answer's words; 1 for two answers without words.

    Args:
        answer: the text; empty for none.
        accepted: texts; none if the question has no answer. Texts without a word are ignored.

    Examples:
        >>> answer_match("the old bridge", ["Old bridge", "London Bridge"])
        (1.0, 1.0)
        >>> answer_match("bridge", ["Old bridge"])
        (0.0, 0.6666666666666666)
        >>> answer_match("", [])
        (1.0, 1.0)
    """
    words = normal_words(answer)
    golds = [gold for text in accepted if (gold := normal_words(text))] or [[]]
    return float(words in golds), max(_f1(words, gold) for gold in golds)


def _f1(words: list[str], gold: list[str]) -> float:
    if not words or not gold:
        return float(words == gold)
    common = sum((Counter(words) & Counter(gold)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold)
    return 2 * precision * recall / (precision + recall)
