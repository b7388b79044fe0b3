"""Texts to samples: words a second of a core against the tokenizers package, and memory against size."""

from __future__ import annotations

import shutil
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measuring import Figure, Plan, Report, alternated
from benchmarks.process import run_measured
from components.artifacts import adopt
from components.preprocess.step import run as preprocess
from components.steps.catalog import STEPS
from components.text.fitting import count_words, fit_vocabulary
from components.text.wordpiece import WordPiece

WORDS, DISTINCT = 1_000_000, 60_000
TOKENS = 8000
# A core prepares a million words in two seconds.
TARGET = 500_000
MEMORY, FULL_MEMORY = (1, 4), (1, 4, 16)
_SENTENCE, _DOCUMENT, _BLOCK = 20, 25, 100_000


def measure(folder: Path, plan: Plan, report: Report) -> None:
    raw = write_corpus(folder / "raw", WORDS)
    lines = [line for line in (raw / "corpus.txt").read_text().split("\n") if line]
    jobs = {"ours": _ours(raw, lines), "theirs": _theirs(raw, lines)}
    speeds = alternated(plan.runs, **jobs)
    report.add(
        Figure("text", "tokenizing 1 M words, against tokenizers", "words/s a core", speeds["ours"], speeds["theirs"],
               target_ratio=1.0, note="the same ids")
    )  # fmt: skip
    # The first run imports.
    prepared = [_prepared(raw, folder / "out") for _ in range(plan.runs + 1)][1:]
    report.add(Figure("text", "1 M words to samples", "words/s a core", prepared, target=TARGET))
    first = 0.0
    for millions in FULL_MEMORY if plan.full else MEMORY:
        raw = write_corpus(folder / f"raw_{millions}", millions * WORDS)
        _, peak = run_measured(
            [sys.executable, "-m", "components.preprocess", "--dataset=text", "--workers=1", f"--raw={raw}",
             f"--parquet={folder / 'out'}"]
        )  # fmt: skip
        shutil.rmtree(raw)
        first = first or peak
        name = f"peak memory, {millions} M words of as many distinct ones"
        report.add(Figure("text", name, "MB", [peak], [first], target_ratio=0.8, lower_is_better=True))


def write_corpus(folder: Path, words: int) -> Path:
    """Words of a power law as a raw artifact, with their vocabulary beside them."""
    folder.mkdir()
    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    names = np.array(["".join(random.choice(letters, size)) for size in random.integers(2, 11, DISTINCT)])
    weights = 1 / (np.arange(DISTINCT) + 3.0)
    with (folder / "corpus.txt").open("w") as file:
        for _ in range(0, words, _BLOCK):
            sentences = names[random.choice(DISTINCT, (_BLOCK // _SENTENCE, _SENTENCE), p=weights / weights.sum())]
            for number, sentence in enumerate(sentences.tolist(), 1):
                file.write(" ".join(sentence) + (".\n" if number % _DOCUMENT else ".\n\n"))
    counts = count_words((folder / "corpus.txt").read_text().split("\n")[:5000])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in fit_vocabulary(counts, TOKENS)))
    adopt(folder)
    return folder


def _ours(raw: Path, lines: list[str]) -> partial[float]:
    def encode(tokens: list[str]) -> float:
        tokenizer = WordPiece(tokens)  # anew, with an empty cache
        started = time.process_time()
        for line in lines:
            tokenizer.encode(line)
        return WORDS / (time.process_time() - started)

    return partial(encode, (raw / "vocab.txt").read_text().split("\n")[:-1])


def _theirs(raw: Path, lines: list[str]) -> partial[float]:
    from tokenizers import BertWordPieceTokenizer

    tokenizer, ours = BertWordPieceTokenizer(str(raw / "vocab.txt")), WordPiece((raw / "vocab.txt").read_text().split())
    for line in lines[:1000]:
        if tokenizer.encode(line, add_special_tokens=False).ids != ours.encode(line):
            raise RuntimeError(f"other ids for {line!r}")

    def encode() -> float:
        started = time.process_time()
        for line in lines:
            tokenizer.encode(line, add_special_tokens=False)
        return WORDS / (time.process_time() - started)

    return partial(encode)


def _prepared(raw: Path, out: Path) -> float:
    """Words a CPU-second of the step, in this process."""
    shutil.rmtree(out, ignore_errors=True)
    started = time.process_time()
    preprocess(STEPS["preprocess"].of(dataset="text", workers=1), raw=raw, parquet=out)
    return WORDS / (time.process_time() - started)
