"""Where the vocabulary of texts comes from, and the file in which it travels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError, explain_os_error
from components.feature_spec import FeatureSpec, Vocabulary
from components.feature_spec.values import earlier_vocabulary, encoding_values
from components.feature_spec.vocabulary import vocabulary_file
from components.text.special import special_of
from components.text.wordpiece import WordPiece

# Name of the vocabulary, and the feature with its ids.
NAME = "tokens"
INPUT_IDS = "input_ids"
_FILE = vocabulary_file(NAME)
_REMEDY = "name the output of a data set of texts, or leave workflow empty"


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
    """Writes the vocabulary of an artifact."""
    path = folder / _FILE
    path.parent.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array(range(len(tokens)), pa.int32()), "value": pa.array(tokens, pa.string())})
    pq.write_table(table, path)


def described(tokenizer: WordPiece) -> Vocabulary:
    """The vocabulary in a feature specification. A model reads no other one: it is exact."""
    return Vocabulary(NAME, _FILE, tokenizer.special.unknown, (INPUT_IDS,), exact=True)
