"""The task question_answering: official scores of real questions, streaming over ranks, and the gate's interval."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components import registry
from components.artifacts import adopt
from components.datasets.squad.synthetic import FILE
from components.download.step import run as download
from components.errors import KfrecError
from components.feature_spec.side_tables import side_tables
from components.parameters import build
from components.scoring.predictions import read_predictions, write_predictions
from components.steps.catalog import STEPS
from components.tasks import ReadingTables, Scores
from components.tasks.question_answering import AnswerDecision, AnswerEvaluation
from components.tasks.question_answering.streaming import AnswerMetrics
from components.text.answers import AnswerSettings
from components.text.questions import WINDOW, QuestionTables
from components.train.loop.ranks import owners_of
from tests.datasets.squad.questions import preprocess

TASK = registry.task("question_answering")


def synthetic(folder: Path, articles: int = 6) -> Path:
    chosen = {"dataset": "squad", "source": "synthetic", "synthetic_articles": articles}
    download(build(STEPS["download"].parameters(chosen), chosen), raw=folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qa")
    preprocess(
        synthetic(folder / "raw"), folder / "out", max_seq_length=40, max_query_length=16, doc_stride=8, test_share=0.5
    )
    return folder / "out"


def rows_of(folder: Path, split: str = "test") -> dict[str, np.ndarray]:
    """Scalars of the samples."""
    files = sorted((folder / split).iterdir(), key=lambda path: int(path.suffixes[0][1:]))
    names = ("start_position", "end_position", "is_impossible", *WINDOW)
    tables = [pq.read_table(path, columns=list(names)) for path in files]
    return {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in names}


def scores_of(folder: Path, outputs: Mapping[str, np.ndarray] | None = None) -> Scores:
    """Scores of a model that knows the targets, or of these outputs."""
    rows = rows_of(folder)
    return Scores({}, outputs or knowing(rows), {name: rows[name] for name in WINDOW}, tables=side_tables(folder))


def knowing(rows: Mapping[str, np.ndarray], most: int = 3) -> dict[str, np.ndarray]:
    """Outputs of a model that marks the targets; windows without the answer score lower."""
    count = len(rows["question"])
    spans = {"span_starts": np.zeros((count, most), np.int32), "span_ends": np.zeros((count, most), np.int32)}
    spans["span_starts"][:, 0], spans["span_ends"][:, 0] = rows["start_position"], rows["end_position"]
    scores = np.full((count, most), -9.0, np.float32)
    impossible = np.where(rows["is_impossible"] > 0, 10, -10).astype(np.float32)
    return {**spans, "span_scores": scores, "impossible": impossible}


def guessing(rows: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Random spans and odds."""
    random, count = np.random.default_rng(seed), len(rows["question"])
    starts = random.integers(0, 40, (count, 6)).astype(np.int32)
    return {
        "span_starts": starts,
        "span_ends": starts + random.integers(-1, 4, (count, 6)).astype(np.int32),
        "span_scores": -random.random((count, 6)).astype(np.float32),
        "impossible": random.normal(-5.6, 2, count).astype(np.float32),
    }


def official(predicted: str, golds: Sequence[str]) -> tuple[float, float]:
    """Scores of one answer, step by step after the rules of the official evaluation."""

    def normal(text: str) -> str:
        without = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", without).split())

    def f1(gold: str) -> float:
        ours, theirs = normal(predicted).split(), normal(gold).split()
        if not ours or not theirs:
            return float(ours == theirs)
        left, common = list(theirs), 0
        for word in ours:
            if word in left:
                left.remove(word)
                common += 1
        if not common:
            return 0.0
        precision, recall = common / len(ours), common / len(theirs)
        return 2 * precision * recall / (precision + recall)

    kept = [gold for gold in golds if normal(gold)] or [""]
    return max(float(normal(gold) == normal(predicted)) for gold in kept), max(map(f1, kept))


def measured(scores: Scores, **parameters: Any) -> dict[str, Any]:
    return TASK.measure(scores, AnswerEvaluation(**parameters)).metrics


@pytest.mark.slow
def test_the_scores_of_all_real_questions_are_the_official_ones(real_data: Path, tmp_path: Path) -> None:
    raw = synthetic(tmp_path / "raw", 3)
    file = real_data / "squad2_half" / "dev-v2.0.json.gz"
    real = tmp_path / "real"
    real.mkdir()
    shutil.copy(raw / FILE, real)
    shutil.copy(file, real)
    adopt(real)
    preprocess(real, tmp_path / "out", questions_per_partition=2000)
    articles = json.loads(gzip.decompress(file.read_bytes()))["data"]
    golds, aligned = {}, {}
    for paragraph in (paragraph for article in articles for paragraph in article["paragraphs"]):
        for qa in paragraph["qas"]:
            golds[qa["id"]] = [answer["text"] for answer in qa["answers"]]
            if qa["answers"]:
                first = qa["answers"][0]
                end = first["answer_start"] + len(first["text"])
                aligned[qa["id"]] = (paragraph["context"], first["answer_start"], end)
    assert len(golds) == 6078
    rows = rows_of(tmp_path / "out")
    known = knowing(rows)
    cut = {**known, "span_ends": np.maximum(known["span_starts"], known["span_ends"] - 1)}
    empty = {**known, "impossible": np.full(len(rows["question"]), 5, np.float32)}
    for outputs, longest in ((known, 1000), (cut, 1000), (empty, 1000), (known, 30)):
        result = TASK.measure(
            scores_of(tmp_path / "out", outputs), AnswerEvaluation(max_answer_length=longest, n_best=1)
        )
        predicted = result.curves["answers"]
        assert predicted.keys() == golds.keys()
        exact, f1 = np.mean([official(predicted[name], golds[name]) for name in golds], 0)
        assert result.metrics["test_exact_match"] == pytest.approx(exact, abs=1e-12)
        assert result.metrics["test_f1"] == pytest.approx(f1, abs=1e-12)
        if outputs is known and longest == 1000:
            # Every answer maps back to its original characters, but for those that begin or end within a token.
            for name, (context, begin, end) in aligned.items():
                text = predicted[name]
                assert context[begin:end] in text and len(text) - (end - begin) < 30, name
            same = sum(predicted[name] == context[begin:end] for name, (context, begin, end) in aligned.items())
            assert same > 0.99 * len(aligned)
            assert result.metrics["test_exact_match"] > 0.99


def test_questions_of_one_id_have_an_answer_each(data: Path, tmp_path: Path) -> None:
    scores = scores_of(data)
    table = pq.read_table(scores.tables["questions"])
    ids = ["a", "", "a", "a#2", *table["id"].to_pylist()[4:]]
    path = tmp_path / "questions.parquet"
    pq.write_table(table.set_column(0, "id", [ids]), path)
    found = TASK.measure(replace(scores, tables={**scores.tables, "questions": path}), AnswerEvaluation()).curves
    before = TASK.measure(scores, AnswerEvaluation()).curves["answers"]
    assert list(found["answers"])[:4] == ["a", "1", "a#3", "a#2"]
    assert list(found["answers"].values()) == list(before.values())


def test_a_model_that_knows_the_answers_is_right(data: Path) -> None:
    result = measured(scores_of(data))
    assert result["test_f1"] == result["test_exact_match"] == result["test_exact_match_of_n_best"] == 1
    assert result["test_unanswerable_left_unanswered"] == 1 and result["test_questions"] == 90
    assert result["test_unanswered"] == pytest.approx(result["test_questions_unanswerable"] / 90)
    assert result["test_windows"] > 90


def test_the_threshold_decides_which_questions_are_answered(data: Path) -> None:
    scores = scores_of(data)
    everything = measured(scores, null_threshold=100.0)
    nothing = measured(scores, null_threshold=-100.0)
    assert nothing["test_f1"] == everything["test_f1_of_no_answers"] == nothing["test_f1_of_no_answers"]
    # Questions without an answer have only [CLS] marked, which is no span.
    assert everything["test_f1"] == 1 and everything["test_unanswered"] == nothing["test_f1_of_no_answers"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_best_threshold_is_that_of_trying_all(data: Path, seed: int) -> None:
    scores = scores_of(data, guessing(rows_of(data), seed))
    result = measured(scores)
    tried = {
        threshold: measured(scores, null_threshold=threshold, n_best=1)["test_f1"]
        for threshold in (-99.0, *map(float, np.unique(scores.outputs["impossible"])[::4]), 99.0)
    }
    assert result["test_f1_at_best_null_threshold"] >= max(tried.values()) - 1e-12
    best = measured(scores, null_threshold=result["test_best_null_threshold"])
    assert best["test_f1"] == pytest.approx(result["test_f1_at_best_null_threshold"])


class Simulated:
    """One of several ranks in one process: a first round of all ranks only sends, a second one receives, too."""

    def __init__(self, rank: int, sent: list[list[Any]], receives: bool) -> None:
        self._rank, self._sent, self._receives, self._calls = rank, sent, receives, 0

    def exchange(self, keys: np.ndarray, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        number, self._calls = self._calls, self._calls + 1
        if not self._receives:
            self._sent[self._rank].append((keys, columns))
            return [column[:0] for column in columns]
        parts = []
        for sent in self._sent:
            keys, columns = sent[number]
            parts.append([column[owners_of(keys, len(self._sent)) == self._rank] for column in columns])
        return [np.concatenate(values) for values in zip(*parts, strict=True)]


def streamed(scores: Scores, batches: Sequence[np.ndarray], ranks: int) -> dict[str, float]:
    """The task's metrics of batches of rows, divided over ranks."""
    metrics = [AnswerMetrics(False, AnswerSettings()) for _ in range(ranks)]
    for each in metrics:
        assert isinstance(each, ReadingTables)
        each.read_tables(scores.tables)
    for number, rows in enumerate(batches):
        kept = {name: tf.constant(values[rows]) for name, values in scores.kept.items()}
        outputs = {name: tf.constant(values[rows]) for name, values in scores.outputs.items()}
        metrics[number % ranks].update({}, outputs, kept)
    sent: list[list[Any]] = [[] for _ in metrics]
    for receives in (False, True):
        totals = [each.totals(Simulated(rank, sent, receives)) for rank, each in enumerate(metrics)]
    return metrics[0].result([np.sum([part.numpy() for part in parts], 0) for parts in zip(*totals, strict=True)])


@pytest.mark.parametrize(("ranks", "size"), [(1, 1000), (1, 7), (2, 7), (4, 3), (8, 40)])
def test_scores_are_the_same_however_windows_are_cut_over_batches_and_ranks(data: Path, ranks: int, size: int) -> None:
    scores = scores_of(data, guessing(rows_of(data), 1))
    order = np.random.default_rng(2).permutation(scores.rows)
    found = streamed(scores, [order[first : first + size] for first in range(0, len(order), size)], ranks)
    expected = measured(scores)
    assert found == {name: pytest.approx(expected[f"test_{name}"], abs=1e-12) for name in ("f1", "exact_match")}
    assert 0 < found["exact_match"] < 1


def test_a_second_split_starts_from_nothing(data: Path) -> None:
    scores = scores_of(data)
    metrics = AnswerMetrics(False, AnswerSettings())
    metrics.read_tables(scores.tables)
    sent: list[list[Any]] = [[]]
    for outputs in (guessing(rows_of(data), 1), knowing(rows_of(data))):
        metrics.reset()
        metrics.update(
            {}, {n: tf.constant(v) for n, v in outputs.items()}, {n: tf.constant(v) for n, v in scores.kept.items()}
        )
    metrics.totals(Simulated(0, sent, False))
    assert metrics.result([total.numpy() for total in metrics.totals(Simulated(0, sent, True))])["f1"] == 1


def test_training_measures_nothing_and_data_without_places_nothing_either(data: Path) -> None:
    training = AnswerMetrics(True, AnswerSettings())
    training.read_tables(side_tables(data))
    training.update({}, {"start_logits": tf.zeros([2, 40])}, {})
    assert training.totals(Simulated(0, [[]], False)) == [] and training.result([]) == {}
    other = AnswerMetrics(False, AnswerSettings())
    other.read_tables({})
    other.update({}, {}, {})
    assert all(np.isnan(value) for value in other.result([np.zeros(3)]).values())


def test_the_gate_compares_two_models_by_question(data: Path) -> None:
    ours, theirs = scores_of(data), scores_of(data, guessing(rows_of(data), 1))
    parameters = AnswerEvaluation()
    interval = TASK.difference(ours, theirs, parameters, 1000, 0.95, 0)
    assert interval.estimate == pytest.approx(TASK.value(ours, parameters) - TASK.value(theirs, parameters))
    assert 0 < interval.low < interval.estimate < interval.high
    same = TASK.difference(ours, ours, parameters, 100, 0.95, 0)
    assert same.estimate == same.units == 0 and np.isnan(same.low)


def test_a_model_that_does_not_beat_silence_is_not_promoted(data: Path) -> None:
    silent = measured(scores_of(data), null_threshold=-100.0)
    (why,) = TASK.vetoes(silent, AnswerDecision())
    assert why.startswith("its F1 of ") and "is not above that of leaving all questions unanswered" in why
    assert TASK.remarks(silent) == (why,) and not TASK.vetoes(silent, AnswerDecision(require_answers=False))
    assert not TASK.vetoes(measured(scores_of(data)), AnswerDecision())


def test_answers_that_are_too_long_to_be_given_are_remarked_on(data: Path) -> None:
    rows = rows_of(data)
    scores = replace(scores_of(data), targets={name: rows[name] for name in ("start_position", "end_position")})
    assert measured(scores)["test_answers_too_long"] == 0 and TASK.remarks(measured(scores)) == ()
    result = measured(scores, max_answer_length=1)
    marked = rows["start_position"] > 0
    share = np.mean((rows["end_position"] > rows["start_position"])[marked])
    assert result["test_answers_too_long"] == pytest.approx(share) and 0.1 < share < 0.9
    (remark,) = TASK.remarks(result)
    assert remark.endswith("have more than max_answer_length=1 tokens, so that no answer can equal them; raise it")


def test_the_report_tells_scores_and_the_best_threshold(data: Path) -> None:
    result = TASK.measure(scores_of(data, guessing(rows_of(data), 1)), AnswerEvaluation())
    story = TASK.story(result)
    assert story.headline == f"Test F1 {result.metrics['test_f1']:.4f}"
    assert [figure.title for figure in story.sections[0].figures] == ["F1 by question word", "Scores by threshold"]
    assert {row["word"] for row in result.metrics["by_question_word"]} <= {
        "how",
        "what",
        "when",
        "where",
        "which",
        "who",
    }


def test_predictions_are_judged_again_from_their_file(data: Path, tmp_path: Path) -> None:
    scores = scores_of(data, guessing(rows_of(data), 1))
    write_predictions(tmp_path / "predictions.parquet", scores)
    again = read_predictions(tmp_path / "predictions.parquet", scores.tables)
    assert measured(again) == measured(scores)


def test_outputs_of_another_task_are_one_line(data: Path) -> None:
    with pytest.raises(KfrecError, match="has the outputs probability, and not span_starts, which this task evaluates"):
        TASK.require(replace(scores_of(data), outputs={"probability": np.zeros(3)}), "model")


def test_the_original_text_is_read_from_the_side_tables(data: Path) -> None:
    tables = QuestionTables(side_tables(data))
    assert len(tables.ids) == len(set(tables.ids)) == len(tables.answers)
    assert all(question.endswith("?") for question in tables.questions)
