"""Where the vocabulary of texts comes from, and the file in which it travels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError, explain_os_error
from components.feature_spec import FeatureSpec, Vocabulary
from components.feature_spec.values import earlier_vocabulary, encoding_values
from components.feature_spec.vocabulary import vocabulary_file
from components.progress import progress, warn
from components.text.fitting import WordCounts, fit_vocabulary
from components.text.special import special_of
from components.text.wordpiece import WordPiece

# Name of the vocabulary, and the feature with its ids.
NAME = "tokens"
INPUT_IDS = "input_ids"
_FILE = vocabulary_file(NAME)
_REMEDY = "name the output of a data set of texts, or leave workflow empty"
# Above this share of unknown words, a vocabulary is one of another language, or of text with upper-case letters.
_MANY_UNKNOWN = 0.1


def read_vocab_txt(path: Path) -> list[str]:
    """The tokens of a vocab.txt: one a line, in the order of their ids.

    Raises:
        KfrecError: it is no text, a token is missing or duplicated, or a special token is missing.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise KfrecError(f"{path}: not UTF-8 text; write one token a line, in UTF-8") from None
    except OSError as error:
        raise explain_os_error(error, path) or error from error
    tokens = [line.rstrip("\r") for line in lines]
    while tokens and not tokens[-1]:
        tokens.pop()
    lines_of: dict[str, int] = {}
    for number, token in enumerate(tokens, 1):
        if not token.strip():
            raise KfrecError(f"{path}: line {number} is empty; write one token a line, since lines are ids")
        if (first := lines_of.setdefault(token, number)) != number:
            raise KfrecError(
                f"{path}: {token!r} is in lines {first} and {number}; a token has one id, remove the second"
            )
    special_of(tokens, str(path))
    return tokens


def read_earlier(location: str, scratch: Path) -> list[str]:
    """The tokens of an earlier output.

    Args:
        location: folder or URI of samples, records or a model.
        scratch: folder for fetched files.

    Raises:
        KfrecError: it has no vocabulary of tokens.
    """
    folder = earlier_vocabulary(location, scratch, [NAME])
    return _tokens_of(folder / _FILE, location)


def _tokens_of(path: Path, place: str) -> list[str]:
    tokens: list[str] = encoding_values(path, 0, _REMEDY).to_pylist()
    special_of(tokens, place)
    return tokens


def tokenizer_of(spec: FeatureSpec) -> WordPiece:
    """The tokenizer of a model's texts.

    Raises:
        KfrecError: the vocabulary is missing or damaged.
    """
    path = spec.folder / _FILE
    return WordPiece(_tokens_of(path, str(path)), str(path))


def write_vocabulary(tokens: Sequence[str], folder: Path) -> None:
    path = folder / _FILE
    path.parent.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array(range(len(tokens)), pa.int32()), "value": pa.array(tokens, pa.string())})
    pq.write_table(table, path)


def described(tokenizer: WordPiece) -> Vocabulary:
    """The vocabulary in a feature specification. A model reads no other one: it is exact."""
    return Vocabulary(NAME, _FILE, tokenizer.special.unknown, (INPUT_IDS,), exact=True)


@dataclass(frozen=True)
class Given:
    """A vocabulary to encode with.

    Attributes:
        tokens: in the order of their ids.
    """

    tokens: tuple[str, ...]
    place: str


@dataclass(frozen=True)
class Settled:
    """The vocabulary of samples.

    Attributes:
        tokens: in the order of their ids.
        vocabulary: "fitted", "given" by vocab.txt, "kept", or "refitted" if too many words were unknown to it.
        out_of_vocabulary_rate: share of the training texts' words that it does not know.
    """

    tokens: tuple[str, ...]
    vocabulary: str
    out_of_vocabulary_rate: float


def given_vocabulary(workflow: str, beside: Path | None, scratch: Path) -> Given | None:
    """The vocabulary to encode with; None fits one.

    Args:
        workflow: the parameter of the preprocess step; it takes precedence.
        beside: vocab.txt among the raw files, if any.
        scratch: folder for fetched files.

    Raises:
        KfrecError: it cannot be read, or lacks a special token.
    """
    if workflow:
        return Given(tuple(read_earlier(workflow, scratch)), workflow)
    return None if beside is None else Given(tuple(read_vocab_txt(beside)), str(beside))


def settle(given: Given | None, counts: WordCounts, parameters: Any) -> Settled:
    """Chooses the vocabulary.

    Args:
        given: the one to encode with, if any.
    """
    kind = "fitted"
    if given is not None:
        rate, limit = counts.share_unknown(WordPiece(given.tokens, given.place)), parameters.out_of_vocabulary_limit
        if rate <= limit:
            if rate > _MANY_UNKNOWN:
                warn(
                    "preprocess",
                    "unknown words",
                    f"{rate:.0%} of the words are unknown to {given.place}, and models read each of them as [UNK]; "
                    "give an uncased vocabulary of this language, or lower out_of_vocabulary_limit to fit one",
                )
            return Settled(given.tokens, "kept" if parameters.workflow else "given", rate)
        print(
            f"{rate:.2%} of the words are unknown to {given.place} (limit {limit:.2%}): vocabulary refitted", flush=True
        )
        kind = "refitted"
    with progress("fitting the vocabulary", None, "tokens") as bar:
        tokens = tuple(fit_vocabulary(counts.counts, parameters.vocab_size))
        bar.advance(len(tokens))
    return Settled(tokens, kind, counts.share_unknown(WordPiece(tokens)))
