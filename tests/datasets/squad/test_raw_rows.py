"""Raw questions are encoded as preprocessing does, and their answers are those of the evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from components import registry
from components.datasets.squad.raw_rows import QuestionRows
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.feature_spec.side_tables import side_tables
from components.scoring import ExportedModel
from components.scoring.raw import raw_model
from components.scoring.signature import Output
from components.tasks import Scores
from components.tasks.question_answering import AnswerEvaluation
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.questions import WINDOW, QuestionTables
from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.squad.questions import CONTEXT, articles, context_of, preprocess, raw_folder

SPANS = 4
INPUTS = ("input_ids", "segment_ids", "p_mask")


def outputs_of(features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of a model whose answers depend on all that it reads."""
    ids, length = np.asarray(features["input_ids"]).astype(np.int64), np.asarray(features["input_ids"]).shape[1]
    key = (
        ids @ np.arange(1, length + 1)
        + np.asarray(features["segment_ids"]).sum(1)
        + np.asarray(features["p_mask"]).sum(1)
    )
    starts = np.stack([(key * (k + 3)) % length for k in range(SPANS)], 1).astype(np.int32)
    return {
        SPAN_STARTS: starts,
        SPAN_ENDS: (starts + (key % 3)[:, None]).astype(np.int32),
        SPAN_SCORES: -(np.stack([(key * (k + 7)) % 11 for k in range(SPANS)], 1) / 8).astype(np.float32),
        IMPOSSIBLE: (-(key % 13)).astype(np.float32),
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    raw = raw_folder(folder / "raw", train=articles(8))
    preprocess(raw, folder / "out", max_seq_length=24, doc_stride=4, max_query_length=8, test_share=0.5)
    return folder / "out"


def model_of(data: Path, **parameters: Any) -> ExportedModel:
    described = {
        SPAN_STARTS: Output("int32", (SPANS,)),
        SPAN_ENDS: Output("int32", (SPANS,)),
        SPAN_SCORES: Output("float32", (SPANS,)),
        IMPOSSIBLE: Output("float32"),
    }

    def signature(**features: Any) -> Mapping[str, Any]:
        return outputs_of({name: values.numpy() for name, values in features.items()})

    return ExportedModel(data, load_feature_spec(data), parameters, INPUTS, described, signature)


def evaluated(data: Path, **parameters: Any) -> dict[str, str]:
    """The answers of the evaluation, by id."""
    rows = samples(data, "test")
    features = {name: np.array([row[name] for row in rows]) for name in INPUTS}
    kept = {name: np.array([row[name] for row in rows]) for name in WINDOW}
    scores = Scores({}, outputs_of(features), kept, tables=side_tables(data))
    measured = registry.task("question_answering").measure(scores, AnswerEvaluation(**parameters))
    return measured.curves["answers"]


def asked(data: Path, ids: list[str]) -> dict[str, pa.Array]:
    tables = QuestionTables(side_tables(data))
    return {
        "question": pa.array([tables.questions[tables.ids.index(name)] for name in ids]),
        "context": pa.array([context_of(f"t{name.split('-')[0]}") for name in ids]),
    }


@pytest.mark.parametrize("parameters", [{}, {"null_threshold": 0.5}, {"null_threshold": 0.5, "max_answer_length": 1}])
def test_the_answers_are_those_of_the_evaluation(data: Path, parameters: dict[str, Any]) -> None:
    expected = evaluated(data, **parameters)
    scored = raw_model(model_of(data, **parameters)).score(asked(data, list(expected)))
    assert scored.outputs["answer"].tolist() == list(expected.values())
    assert set(expected.values()) != {""}
    assert {name: values.dtype.kind for name, values in scored.outputs.items()} == {
        "answer": "U", "score": "f", "no_answer": "f",
    }  # fmt: skip


def test_windows_are_those_of_preprocessing(data: Path) -> None:
    rows = [row for row in samples(data, "test") if row["question"] < 4]
    tables = QuestionTables(side_tables(data))
    encoded = QuestionRows(load_feature_spec(data), INPUTS).encode(asked(data, tables.ids[:4]))
    for name in (*INPUTS, *WINDOW):
        assert encoded.features[name].tolist() == [row[name] for row in rows], name


def test_one_context_serves_many_questions(data: Path) -> None:
    model = raw_model(model_of(data))
    questions = asked(data, list(evaluated(data)))["question"]
    rows = {"question": questions, "context": pa.array([CONTEXT] * len(questions))}
    one = model.score({**rows, "context": rows["context"][:1]})
    assert one.outputs["answer"].tolist() == model.score(rows).outputs["answer"].tolist()


def test_unknown_tokens_are_counted(data: Path) -> None:
    scored = raw_model(model_of(data)).score(
        {"question": pa.array(["What is ζζ?", "What?"]), "context": pa.array([CONTEXT, CONTEXT])}
    )
    assert scored.unknown["question"].tolist() == [1, 0] and scored.unknown["context"].tolist() == [0, 0]


def test_the_example_can_be_asked(data: Path) -> None:
    model = raw_model(model_of(data))
    example = {name: pa.array(values) for name, values in model.rows.example().items()}
    assert model.score(example).rows == 2
    assert model.columns[0].name == "question" and model.outputs == ("answer", "score", "no_answer", "unknown_ids")


@pytest.mark.parametrize("empty", ["", "  ", None])
@pytest.mark.parametrize("column", ["question", "context"])
def test_an_empty_text_is_one_line(data: Path, column: str, empty: str | None) -> None:
    rows = {"question": pa.array(["What?"]), "context": pa.array([CONTEXT]), column: pa.array([empty], pa.string())}
    with pytest.raises(KfrecError, match=f"column {column}: a row is empty; give each row a question and a context"):
        raw_model(model_of(data)).score(rows)


@pytest.mark.parametrize("value", [["What?"], {"text": "What?"}])
def test_a_nested_column_is_one_line(data: Path, value: object) -> None:
    rows = {"question": pa.array([value]), "context": pa.array([CONTEXT])}
    with pytest.raises(KfrecError, match=r"column question is of the type .*; give one text a row"):
        raw_model(model_of(data)).score(rows)


def test_no_rows_have_no_answers(data: Path) -> None:
    none = {name: pa.array([], pa.string()) for name in ("question", "context")}
    assert raw_model(model_of(data)).score(none).rows == 0


def test_data_of_another_kind_are_one_line(data: Path, tmp_path: Path) -> None:
    spec = load_feature_spec(data)
    del spec.metadata["encoding"]["windows"]
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: the metadata section encoding has no windows"):
        QuestionRows(spec, INPUTS)
