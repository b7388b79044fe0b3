"""From texts to samples."""

from __future__ import annotations

from collections.abc import Mapping
from math import nextafter
from typing import Any

from components.checks.profile import NUMBER
from components.checks.tables import Profiled
from components.datasets.definition import PreprocessJob
from components.datasets.text import TEXTS, VOCABULARY
from components.datasets.text.documents import Partitions, parse_lines, profiled
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME, TEST, TRAIN
from components.progress import warn
from components.text.vocabulary import Settled, given_vocabulary, settle, write_vocabulary
from components.text.wordpiece import WordPiece
from components.text.writing import CHANNELS, token_features, token_metadata
from components.workflows.startup import start_fork_server_early
from components.workflows.text_blocks import RawReader

_COLUMNS = (Profiled("sentences", NUMBER), Profiled("characters", NUMBER))
_KEY = ("digest",)
# The last sentence of a sample is cut in the middle, which costs a tenth; paragraphs cost more.
_MUCH_CUT = 0.3


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of both splits.

    Returns counts of samples, documents, lines dropped, and tokens, those that are cut off apart.
    """
    parameters, scratch = job.parameters, job.scratch
    files = TEXTS.files(job.raw)
    beside = next((path for path in job.raw.paths("*") if VOCABULARY.matches(path.name)), None)
    given = given_vocabulary(parameters.workflow, beside, scratch / "given")
    reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
    profiler = job.profiler.table("documents", _COLUMNS, _KEY)
    partitions = Partitions(scratch, parameters.bytes_per_partition)
    least = 1.0
    for path in files:
        tables = reader.tables([path], parse_lines, "lines of text", f"reading {path.name}")
        for documents in partitions.add(path.name, tables):
            profiler.add(profiled(documents))
            least = min(least, *(document.draw(parameters.seed) for document in documents))
            if len(partitions.written) > 1:
                start_fork_server_early(parameters.workers, job.scheduler)
    _require_documents(partitions.documents, job)
    job.profiler.judge()

    from components.datasets.text import pipeline
    from components.workflows.workers import dask_workers

    # At least one document is a test document.
    division = pipeline.Division(parameters.seed, max(parameters.test_share, nextafter(least, 1.0)))
    packing = pipeline.Packing(parameters.max_seq_length, parameters.one_segment_share, parameters.short_share)
    with dask_workers(parameters.workers, job.scheduler, len(partitions.written)) as workers:
        settled = settle(given, pipeline.count(workers, partitions.written, division, scratch), parameters)
        counts = pipeline.write(workers, partitions.written, settled, packing, division, job.output)
    if not counts[TRAIN]:
        raise KfrecError(
            f"{job.raw.path}: all {partitions.documents} documents are test documents with test_share="
            f"{parameters.test_share:g}; lower it"
        )
    write_vocabulary(settled.tokens, job.output)
    _warn_of_cut_lines(counts)
    (job.folder / FILENAME).write_text(_specification(settled, parameters.max_seq_length, job).to_yaml())
    return {
        TRAIN: counts[TRAIN],
        TEST: counts[TEST],
        "documents": partitions.documents,
        "malformed_lines": reader.malformed_lines,
        "tokens": counts["tokens"],
        "cut_tokens": counts["cut"],
    }


def _require_documents(documents: int, job: PreprocessJob) -> None:
    """Raises KfrecError where there is nothing to divide into splits."""
    if not documents:
        raise KfrecError(f"{job.raw.path}: its files hold no text; check what download fetched")
    if documents == 1:
        raise KfrecError(
            f"{job.raw.path}: its files hold one document, so that none is left to test on; put blank lines between "
            "documents, or add files"
        )


def _warn_of_cut_lines(counts: Mapping[str, int]) -> None:
    share = counts["cut"] / max(counts["tokens"] + counts["cut"], 1)
    if share > _MUCH_CUT:
        warn(
            "preprocess",
            "cut lines",
            f"{share:.0%} of the tokens are cut off, because lines are longer than a sample; write one sentence a "
            "line, or raise max_seq_length",
        )


def _specification(settled: Settled, length: int, job: PreprocessJob) -> FeatureSpec:
    tokenizer = WordPiece(settled.tokens)
    encoding: dict[str, Any] = {
        "dataset": "text",
        "vocabulary": settled.vocabulary,
        "out_of_vocabulary_rate": settled.out_of_vocabulary_rate,
        "raw_rows": job.raw.rows.get(TEXTS.rows, 0),
    }
    features = {feature.name: feature for feature in token_features(tokenizer, length)}
    return FeatureSpec(features, {}, CHANNELS, {**token_metadata(tokenizer), "encoding": encoding})
