"""Questions and contexts at serving time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from components.datasets.raw_rows import TEXT, Encoded, RawColumn
from components.datasets.squad.windows import Shape, Windows
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.text import answers
from components.text.answers import AnswerSettings
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.questions import CONTEXT_BEGIN, CONTEXT_TOKENS, FIRST_TOKEN, QUESTION
from components.text.special import CHANNEL
from components.text.vocabulary import tokenizer_of
from components.text.wordpiece import Tokens

_QUESTION, _CONTEXT = "question", "context"


@dataclass(frozen=True)
class EncodedQuestions(Encoded):
    """Windows of questions."""

    windows: answers.Windows
    contexts: tuple[str, ...]
    tokens: tuple[Tokens, ...]


class QuestionRows:
    """Encodes questions and their contexts, and reads the answers from the contexts.

    Raises:
        KfrecError: the vocabulary, or the sizes of the windows, are missing or damaged.
    """

    columns = (
        RawColumn(_QUESTION, TEXT, "the question"),
        RawColumn(_CONTEXT, TEXT, "the text that may hold the answer"),
    )
    answers: Mapping[str, str] = {"answer": "str", "score": "float32", "no_answer": "float32"}

    def __init__(self, spec: FeatureSpec, inputs: Collection[str]) -> None:
        self._tokenizer = tokenizer_of(spec)
        noted = spec.metadata.get("encoding") or {}
        try:
            sizes = noted["windows"]
            self._shape = Shape(int(spec.channel(CHANNEL)[0].length or 0), int(sizes["stride"]), int(sizes["query"]))
        except (KeyError, TypeError, ValueError):
            raise KfrecError(
                f"{spec.folder / FILENAME}: the metadata section encoding has no windows: {{stride: 128, query: 64}}, "
                "as the data set squad writes; prepare the data again"
            ) from None

    def encode(self, rows: Mapping[str, pa.Array]) -> EncodedQuestions:
        questions, contexts = _texts(rows[_QUESTION], _QUESTION), _texts(rows[_CONTEXT], _CONTEXT)
        count = max(len(questions), len(contexts)) if questions and contexts else 0
        questions, contexts = (each * count if len(each) == 1 else each for each in (questions, contexts))
        windows = Windows(self._shape, self._tokenizer.special)
        located: dict[str, Tokens] = {}
        unknown: dict[str, np.ndarray] = {name: np.zeros(count, np.int32) for name in (_QUESTION, _CONTEXT)}
        for number, (question, context) in enumerate(zip(questions, contexts, strict=True)):
            if context not in located:
                located[context] = self._tokenizer.locate(context)
            tokens = located[context]
            query = self._tokenizer.encode(question)
            windows.add(number, query, tokens.ids, None)
            unknown[_QUESTION][number] = query.count(self._tokenizer.special.unknown)
            unknown[_CONTEXT][number] = tokens.ids.count(self._tokenizer.special.unknown)
        columns = windows.columns()
        places = (columns[name].astype(np.int64) for name in (QUESTION, FIRST_TOKEN, CONTEXT_TOKENS, CONTEXT_BEGIN))
        return EncodedQuestions(
            columns, unknown, answers.Windows(*places), tuple(contexts), tuple(located[each] for each in contexts)
        )

    def answer(
        self,
        rows: Mapping[str, pa.Array],
        encoded: Encoded,
        outputs: Mapping[str, np.ndarray],
        parameters: Mapping[str, Any],
    ) -> Mapping[str, np.ndarray]:
        assert isinstance(encoded, EncodedQuestions)
        settings = AnswerSettings.of(parameters)
        spans = answers.valid_spans(
            encoded.windows,
            outputs[SPAN_STARTS],
            outputs[SPAN_ENDS],
            outputs[SPAN_SCORES],
            settings.max_answer_length,
        )
        found = answers.answers(encoded.windows, outputs[IMPOSSIBLE], spans)
        empty = settings.is_empty(found)
        texts = [
            "" if nothing else encoded.contexts[row][encoded.tokens[row].begins[begin] : encoded.tokens[row].ends[end]]
            for row, (begin, end, nothing) in enumerate(zip(found.begin, found.end, empty, strict=True))
        ]
        return {
            "answer": np.array(texts, dtype=np.str_),
            "score": found.score,
            "no_answer": found.impossible,
        }

    def example(self) -> dict[str, list[Any]]:
        context = "The lamp of the hall is red. The clock of the hall is green."
        return {_QUESTION: ["Which colour has the lamp?", "Which colour has the clock?"], _CONTEXT: [context, context]}


def _texts(values: pa.Array, name: str) -> list[str]:
    if pa.types.is_nested(values.type):
        raise KfrecError(f"column {name} is of the type {values.type}; give one text a row")
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    for text in texts:
        if text is None or not text.strip():
            raise KfrecError(f"column {name}: a row is empty; give each row a question and a context")
    return [text for text in texts if text is not None]
