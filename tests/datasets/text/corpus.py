"""Small corpora, and their samples as tokens."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from components.artifacts import adopt
from components.text.special import NAMES
from tests.datasets.amazon_reviews.raw import samples, vocabulary
from tests.preprocess import running

preprocess = partial(running.preprocess, dataset="text")
error_of = partial(running.error_of, dataset="text")
WORDS = ("the", "lamp", "Clock", "is", "red", "green", "old", "and", "not", "very", "bright")


def random_document(seed: int, sentences: int = 8) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.randint(1, 12))) + "." for _ in range(sentences)]


def text_of(documents: list[list[str]]) -> str:
    return "\n".join("".join(f"{line}\n" for line in document) for document in documents)


def raw_folder(folder: Path, **files: str | bytes) -> Path:
    """A raw artifact with a file for each keyword: ``a`` is a.txt, ``a_gz`` is a.txt.gz."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        content = text.encode() if isinstance(text, str) else text
        path = folder / f"{name.removesuffix('_gz')}.txt{'.gz' if name.endswith('_gz') else ''}"
        path.write_bytes(gzip.compress(content) if name.endswith("_gz") else content)
    if files:
        adopt(folder)
    return folder


def tokens_of(output: Path, split: str) -> list[tuple[list[str], list[str]]]:
    """The segments of each sample; checks special tokens, segments and padding."""
    known, pairs = vocabulary(output, "tokens"), []
    for sample in samples(output, split):
        tokens = [known[number] for number in sample["input_ids"]]
        used = len(tokens) - tokens[::-1].index("[SEP]")
        assert tokens[0] == "[CLS]" and tokens[used:] == ["[PAD]"] * (len(tokens) - used)
        first = tokens[1 : tokens.index("[SEP]")]
        second = tokens[len(first) + 2 : used - 1] if used > len(first) + 2 else []
        assert not {*first, *second} & {*NAMES[2:], "[PAD]"}
        ones = len(second) + 1 if second else 0
        assert sample["segment_ids"] == [0] * (len(first) + 2) + [1] * ones + [0] * (len(tokens) - used)
        pairs.append((first, second))
    return pairs


def columns_of(output: Path, split: str) -> list[str]:
    return pq.read_schema(next((output / split).iterdir())).names
