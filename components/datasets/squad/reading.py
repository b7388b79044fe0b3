"""Parses files of questions: articles of paragraphs, each a text with its questions."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.text.wordpiece import has_words
from components.workflows.quarantine import BadLine, Quarantine
from components.workflows.text_blocks import require_text

# Half of a pair, which an escape such as \ud83d may leave in JSON; neither tables nor files can hold it.
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXAMPLE = '{"data": [{"title": "...", "paragraphs": [{"context": "...", "qas": [...]}]}]}'


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        answers: accepted texts; none if it has no answer.
        begin: character of the context where the first answer begins; -1 without one.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    begin: int

    @property
    def end(self) -> int:
        """The character behind the first answer."""
        return self.begin + len(self.answers[0]) if self.answers else -1


@dataclass(frozen=True)
class Paragraph:
    """A text with its questions."""

    context: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Article:
    """Paragraphs that belong together, and to one split.

    Attributes:
        paragraphs: with at least one question each.
    """

    paragraphs: tuple[Paragraph, ...]

    def divided(self) -> list[Article]:
        """Its paragraphs as articles."""
        return [Article((each,)) for each in self.paragraphs]


def joined(articles: Sequence[Article]) -> list[Article]:
    """Articles of which no two share a context: those that do become one, so that no context is in two splits.

    Paragraphs with one context become one, too: some sets repeat a long text for each of its questions.
    """
    leaders: dict[str, str] = {}

    def leader(context: str) -> str:
        above = leaders.setdefault(context, context)
        while above != context:
            context, above = above, leaders[above]
        return context

    for article in articles:
        for paragraph in article.paragraphs:
            leaders[leader(paragraph.context)] = leader(article.paragraphs[0].context)
    merged: dict[str, dict[str, list[Question]]] = {}
    for article in articles:
        questions = merged.setdefault(leader(article.paragraphs[0].context), {})
        for paragraph in article.paragraphs:
            questions.setdefault(paragraph.context, []).extend(paragraph.questions)
    return [Article(tuple(Paragraph(context, tuple(each)) for context, each in one.items())) for one in merged.values()]


class _Malformed(ValueError):
    """A question that cannot be used."""


def read_articles(path: Path, quarantine: Quarantine) -> list[Article]:
    """The articles of a file.

    Raises:
        KfrecError: the file is no such JSON, or too many questions cannot be used.
    """
    articles, count = [], 0
    for number, article in enumerate(_articles(path)):
        paragraphs = []
        for context, questions in _paragraphs(path, number, article):
            good = []
            for question in questions:
                count += 1
                try:
                    good.append(_question(question, context))
                except _Malformed as error:
                    text = json.dumps(question, ensure_ascii=False)[:1000]
                    quarantine.add([BadLine(count, str(error), text.encode("utf-8", "backslashreplace"))])
            if good:
                paragraphs.append(Paragraph(context, tuple(good)))
        if paragraphs:
            articles.append(Article(tuple(paragraphs)))
    quarantine.judge(count)
    return articles


def _articles(path: Path) -> list[Any]:
    try:
        body = json.loads(_content(path))
    except UnicodeDecodeError:
        raise KfrecError(f"{path}: not UTF-8 text; write it as UTF-8") from None
    except ValueError as error:
        if str(error).startswith("Extra data"):
            raise KfrecError(f"{path}: holds several JSON values, as JSON Lines do; give one, {_EXAMPLE}") from None
        raise KfrecError(f"{path}: not JSON ({error}); get a complete copy of it") from None
    except RecursionError:
        raise KfrecError(f"{path}: is nested too deeply; give {_EXAMPLE}") from None
    articles = body.get("data") if isinstance(body, dict) else None
    if not isinstance(articles, list):
        raise KfrecError(f"{path}: has no list data; give {_EXAMPLE}")
    return articles


def _content(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise KfrecError(f"{path}: truncated or damaged gzip file ({error}); download it again") from None
    require_text(str(path), content[:16], "unpack or convert it to JSON")
    return content.decode("utf-8-sig")


def _text(value: str) -> str:
    """A text with a replacement character for each half of a surrogate pair, so that positions stay."""
    return _SURROGATE.sub("\ufffd", value)


def _paragraphs(path: Path, number: int, article: Any) -> Iterator[tuple[str, list[Any]]]:
    paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
    if not isinstance(paragraphs, list):
        raise KfrecError(f"{path}: article {number} of data has no list paragraphs; give {_EXAMPLE}")
    for index, paragraph in enumerate(paragraphs):
        context, questions = (
            (paragraph.get("context"), paragraph.get("qas")) if isinstance(paragraph, dict) else (None, None)
        )
        if not isinstance(context, str) or not isinstance(questions, list):
            raise KfrecError(
                f"{path}: paragraph {index} of article {number} needs the text context and the list qas; give "
                f"{_EXAMPLE}"
            )
        yield _text(context), questions


def _question(body: Any, context: str) -> Question:
    if not isinstance(body, dict) or not isinstance(text := body.get("question"), str):
        raise _Malformed("it has no text question")
    name = "" if body.get("id") is None else _text(str(body["id"]))
    listed = [] if body.get("answers") is None else body["answers"]
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise _Malformed("answers is no list of objects")
    texts = tuple(each.get("text") for each in listed)
    if not all(isinstance(each, str) for each in texts):
        raise _Malformed("an answer has no text")
    text, texts = _text(text), tuple(map(_text, texts))
    impossible = body.get("is_impossible")
    if impossible not in (None, False, True):
        raise _Malformed(f"is_impossible is {impossible!r}; say true or false")
    if impossible:
        return Question(name, text, (), -1)
    if not texts:
        raise _Malformed("it has no answer; if that is meant, say is_impossible: true")
    begin = listed[0].get("answer_start")
    if not isinstance(begin, int) or isinstance(begin, bool) or begin < 0:
        raise _Malformed(f"answer_start is {begin!r}, and not a number of characters, such as 21")
    if not has_words(texts[0]):
        raise _Malformed(f"its answer {texts[0][:60]!r} has no words")
    if context[begin : begin + len(texts[0])] != texts[0]:
        raise _Malformed(f"its answer {texts[0][:60]!r} is not at character {begin} of its context")
    return Question(name, text, texts, begin)
