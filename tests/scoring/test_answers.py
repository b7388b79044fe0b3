"""Raw rows that become several samples each, and whose outputs become one answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.datasets.raw_rows import VALUE, Encoded, RawColumn
from components.feature_spec import Feature, FeatureSpec
from components.scoring import ExportedModel, RawModel
from components.scoring.signature import Output


class Longest:
    """Splits a text into words; the answer is the word of the highest score."""

    columns: tuple[RawColumn, ...] = (RawColumn("text", VALUE, "words"),)
    answers: Mapping[str, str] = {"word": "str", "score": "float32"}

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        words = [word for text in rows["text"].to_pylist() for word in text.split()]
        unknown = np.zeros(len(rows["text"]), np.int32)
        return Encoded({"length": np.array([len(word) for word in words], np.int64)}, {"text": unknown})

    def answer(
        self,
        rows: Mapping[str, pa.Array],
        encoded: Encoded,
        outputs: Mapping[str, np.ndarray],
        parameters: Mapping[str, Any],
    ) -> Mapping[str, np.ndarray]:
        texts = [text.split() for text in rows["text"].to_pylist()]
        parts = np.split(outputs["probability"], np.cumsum([len(words) for words in texts])[:-1])
        sign = -1 if parameters.get("shortest") else 1
        best = [int(np.argmax(sign * scores)) for scores in parts]
        words = np.array([words[place] for words, place in zip(texts, best, strict=True)])
        scores = np.array([part[place] for part, place in zip(parts, best, strict=True)], np.float32)
        return {"word": words, "score": scores}

    def example(self) -> dict[str, list[Any]]:
        return {"text": ["a word", "two words"]}


def make(folder: Path, **parameters: Any) -> RawModel:
    spec = FeatureSpec({"length": Feature("length", "int64")}, {}, {"words": ("length",)}, {}, folder)

    def signature(**features: Any) -> Mapping[str, Any]:
        return {"probability": features["length"].numpy().astype(np.float32) / 100}

    model = ExportedModel(folder, spec, parameters, ("length",), {"probability": Output("float32")}, signature)
    return RawModel(model, Longest(), "words")


def test_the_samples_of_a_row_become_one_answer(tmp_path: Path) -> None:
    model = make(tmp_path)
    scored = model.score({"text": pa.array(["to be or nothing", "is", "the question"])})
    assert scored.outputs["word"].tolist() == ["nothing", "is", "question"]
    np.testing.assert_allclose(scored.outputs["score"], [0.07, 0.02, 0.08])
    assert scored.rows == 3 and scored.unknown_ids.tolist() == [0, 0, 0]
    assert model.outputs == ("word", "score", "unknown_ids")


def test_the_answers_to_no_rows_have_their_types(tmp_path: Path) -> None:
    nothing = make(tmp_path).nothing()
    assert {name: (values.dtype.kind, len(values)) for name, values in nothing.items()} == {
        "word": ("U", 0),
        "score": ("f", 0),
    }


def test_an_answer_sees_the_parameters_of_the_training(tmp_path: Path) -> None:
    scored = make(tmp_path, shortest=True).score({"text": pa.array(["to be or nothing", "is", "a question"])})
    assert scored.outputs["word"].tolist() == ["to", "is", "a"]
