"""Which vocabulary a corpus is encoded with: a given one, or one fitted to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.progress import progress, warn
from components.text.counting import WordCounts
from components.text.fitting import fit_vocabulary
from components.text.vocabulary import read_earlier, read_vocab_txt
from components.text.wordpiece import WordPiece

# Above this share of unknown words, a vocabulary is one of another language, or of text with upper-case letters.
_MANY_UNKNOWN = 0.1


@dataclass(frozen=True)
class Given:
    """A vocabulary to encode with.

    Attributes:
        tokens: in the order of their ids.
        place: where it is from.
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
        counts: of the training texts.
        parameters: of the preprocess step, with vocab_size.
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
