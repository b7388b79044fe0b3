"""From questions to samples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from components.artifacts import Artifact
from components.checks.profile import CATEGORY, NUMBER
from components.checks.tables import Profiled
from components.datasets.definition import PreprocessJob
from components.datasets.squad import QUESTIONS, VOCABULARY
from components.datasets.squad.reading import Article, joined, read_articles
from components.datasets.squad.windows import P_MASK, Shape
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.spec import FILENAME, TEST, TRAIN, VALIDATION
from components.progress import progress, warn
from components.random_draws import fraction_of
from components.text.questions import END, IS_IMPOSSIBLE, START, WINDOW
from components.text.vocabulary import Settled, given_vocabulary, settle, write_vocabulary
from components.text.wordpiece import WordPiece
from components.text.writing import CHANNELS, token_features, token_metadata
from components.workflows.quarantine import Quarantine
from components.workflows.startup import start_fork_server_early

_COLUMNS = (
    Profiled("question_characters", NUMBER),
    Profiled("context_characters", NUMBER),
    Profiled("answer_characters", NUMBER),
    Profiled("answerable", CATEGORY),
)
_KEY = ("question", "context_characters")
# With fewer articles, their texts are divided among the splits.
_FEWEST = 10
# A model of the synthetic questions can answer all of them.
_BEST = {"f1": 1.0, "exact_match": 1.0}
# Above this share of answers that begin or end within a token, positions or vocabulary do not suit the texts.
_MANY_WIDENED = 0.1
# Above this share of answers that no window holds, models learn that such questions have none.
_MANY_TOO_LONG = 0.01
# dev-v2.0.json and test.json, but also quoref-dev-v0.1.json, GermanQuAD_test.json and valid.json.
_TESTED = re.compile(r"(?i)(dev|test)|(.*[^a-z0-9])?(valid|validation|dev|test)(?![a-z])")


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of the splits, and the texts of the questions that are evaluated.

    Returns counts of samples, questions, and questions dropped.
    """
    parameters, scratch = job.parameters, job.scratch
    trained, tested = find_questions(job.raw)
    beside = next((path for path in job.raw.paths("*") if VOCABULARY.matches(path.name)), None)
    given = given_vocabulary(parameters.workflow, beside, scratch / "given")
    profiler = job.profiler.table("questions", _COLUMNS, _KEY)
    dropped = 0
    articles: dict[Path, list[Article]] = {}
    with progress("reading questions", len(trained) + len(tested), "files") as bar:
        for path in (*trained, *tested):
            quarantine = Quarantine(
                path, job.folder / "quarantine", parameters.malformed_limit, "usable questions", "question"
            )
            try:
                articles[path] = read_articles(path, quarantine)
            finally:
                quarantine.close()
            dropped += quarantine.count
            profiler.malformed += quarantine.count
            if articles[path]:
                profiler.add(_profiled(articles[path]))
            bar.advance(1)
    splits = _splits(articles, trained, tested, parameters)
    job.profiler.judge()

    from components.datasets.squad import pipeline
    from components.workflows.workers import dask_workers

    partitions = pipeline.partitions_of(splits, parameters.questions_per_partition)
    if len(partitions) > 2:
        start_fork_server_early(parameters.workers, job.scheduler)
    shape = Shape(parameters.max_seq_length, parameters.doc_stride, parameters.max_query_length)
    with dask_workers(parameters.workers, job.scheduler, len(partitions)) as workers:
        settled = settle(given, pipeline.count(workers, partitions, scratch), parameters)
        counts = pipeline.write(workers, partitions, settled.tokens, shape, job.output, scratch)
    write_vocabulary(settled.tokens, job.output)
    if counts["widened_answers"] > _MANY_WIDENED * counts["questions"]:
        warn(
            "preprocess",
            "answers within tokens",
            f"{counts['widened_answers']} of {counts['questions']} answers begin or end within a word, so that models "
            "learn longer ones; where a language joins words, such as Japanese, Korean and Thai, give a vocab.txt of "
            "it or a lower vocab_size, else check the answers",
        )
    if counts["too_long_answers"] > _MANY_TOO_LONG * counts["questions"]:
        warn(
            "preprocess",
            "answers longer than windows",
            f"{counts['too_long_answers']} of {counts['questions']} answers are in no window, so that models learn "
            f"that there is none; raise max_seq_length ({shape.length}) or lower doc_stride ({shape.stride})",
        )
    unanswerable = any(not question.answers for question in _questions(splits[TRAIN]))
    (job.folder / FILENAME).write_text(_specification(settled, shape, counts["questions"], unanswerable, job).to_yaml())
    return {
        **{split: counts[split] for split in (TRAIN, VALIDATION, TEST)},
        "questions": counts["questions"],
        "malformed_questions": dropped,
    }


def _questions(articles: Sequence[Article]) -> Any:
    return (question for article in articles for paragraph in article.paragraphs for question in paragraph.questions)


def _splits(
    articles: Mapping[Path, Sequence[Article]], trained: Sequence[Path], tested: Sequence[Path], parameters: Any
) -> dict[str, list[Article]]:
    """Divides the articles, the training split last.

    Raises:
        KfrecError: there are too few texts.
    """
    ordered = joined([article for path in trained for article in articles[path]])
    if len(ordered) < _FEWEST:  # all texts of a collection may be one article
        ordered = joined([part for article in ordered for part in article.divided()])
    ordered.sort(key=lambda article: fraction_of(parameters.seed, article.paragraphs[0].context))
    test = joined([article for path in tested for article in articles[path]])
    if tested and not test:
        raise KfrecError(f"{tested[0]}: no questions in it; give a complete file, or remove it")
    needed = 2 if tested else 3
    if len(ordered) < needed:
        raise KfrecError(
            f"{trained[0]}: {len(ordered)} texts with questions, and every split needs one; give at least {needed}"
        )
    if not tested:
        held = max(1, min(round(parameters.test_share * len(ordered)), len(ordered) - 2))
        test, ordered = ordered[:held], ordered[held:]
    elif shared := _contexts(test) & _contexts(ordered):
        warn(
            "preprocess",
            "texts in two splits",
            f"{len(shared)} of {len(_contexts(test))} texts of {', '.join(path.name for path in tested)} are also in "
            "the files to train on, which raises the scores; remove one of the files",
        )
    held = max(1, min(round(parameters.judging_share * len(ordered)), len(ordered) - 1))
    return {TEST: test, VALIDATION: ordered[:held], TRAIN: ordered[held:]}


def _contexts(articles: Sequence[Article]) -> set[str]:
    return {paragraph.context for article in articles for paragraph in article.paragraphs}


def _profiled(articles: Sequence[Article]) -> pa.Table:
    """What the data checks see of questions."""
    rows = [
        (paragraph.context, question)
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.questions
    ]
    return pa.table(
        {
            "question": pa.array([question.text for _, question in rows], pa.string()),
            "question_characters": pa.array([len(question.text) for _, question in rows], pa.int64()),
            "context_characters": pa.array([len(context) for context, _ in rows], pa.int64()),
            "answer_characters": pa.array(
                [len(question.answers[0]) if question.answers else None for _, question in rows], pa.int64()
            ),
            "answerable": pa.array(["yes" if question.answers else "no" for _, question in rows], pa.string()),
        }
    )


def _specification(
    settled: Settled, shape: Shape, questions: int, unanswerable: bool, job: PreprocessJob
) -> FeatureSpec:
    tokenizer = WordPiece(settled.tokens)
    encoding: dict[str, Any] = {
        "dataset": "squad",
        "vocabulary": settled.vocabulary,
        "out_of_vocabulary_rate": settled.out_of_vocabulary_rate,
        "raw_rows": questions,
        "windows": {"stride": shape.stride, "query": shape.query},
        "version_2": unanswerable,
    }
    if job.generation is not None:
        encoding["best"] = _BEST
    targets = [Feature(START, "int32"), Feature(END, "int32"), Feature(IS_IMPOSSIBLE, "bool")]
    features = [
        *targets,
        *token_features(tokenizer, shape.length),
        Feature(P_MASK, "int8", 1, shape.length),
        *(Feature(name, "int32") for name in WINDOW),
    ]
    channels = {
        Channel.LABEL: tuple(feature.name for feature in targets),
        **CHANNELS,
        P_MASK: (P_MASK,),
        Channel.GROUP: WINDOW,
    }
    metadata = {**token_metadata(tokenizer), "encoding": encoding}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels, metadata)


def find_questions(raw: Artifact) -> tuple[list[Path], list[Path]]:
    """The files to train on, and those to test on by their names, possibly none.

    Raises:
        KfrecError: there is no file, or one is there twice.
    """
    files = QUESTIONS.files(raw)
    tested = [path for path in files if _TESTED.match(path.name)]
    trained = [path for path in files if path not in tested]
    return (trained, tested) if trained else (tested, [])  # a part of a dev file alone is tested on
