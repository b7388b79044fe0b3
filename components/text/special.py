"""The special tokens of a vocabulary, by name and by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.parameters import param

# Section of a feature specification's metadata with the ids.
TOKENS = "tokens"
# Channel of the tokens and of their segments.
CHANNEL = "tokens"
PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
# In the order of ``SpecialTokens``, which is that of a fitted vocabulary.
NAMES = (PAD, UNKNOWN, CLS, SEP, MASK)
VOCAB_SIZE = param(
    30_522,
    "Tokens of a new vocabulary, fitted to the training texts where no vocab.txt lies beside them and workflow is "
    "empty; a small corpus makes fewer",
    unit="tokens",
    at_least=6,
    at_most=1_000_000,
)


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the special tokens. No text has them: a literal ``[SEP]`` is tokenized as three tokens.

    Attributes:
        pad: of padding, 0.
        unknown: of a word that no tokens spell.
        cls: of the first token of a sequence.
    """

    pad: int
    unknown: int
    cls: int
    sep: int
    mask: int

    def to_dict(self) -> dict[str, int]:
        """The metadata section TOKENS."""
        return asdict(self)


def special_of(tokens: Sequence[str] | Mapping[str, int], place: str) -> SpecialTokens:
    """The special tokens of a vocabulary.

    Args:
        tokens: of the vocabulary, in the order of their ids, or to their ids.
        place: of the vocabulary, for messages.

    Raises:
        KfrecError: one is missing, or padding is not 0.
    """
    ids = tokens if isinstance(tokens, Mapping) else {token: number for number, token in enumerate(tokens)}
    for name in NAMES:
        if name not in ids:
            raise KfrecError(
                f"{place}: has no token {name}; take the vocabulary of a BERT or ELECTRA model, or leave it out to fit "
                "one on the corpus"
            )
    if ids[PAD]:
        raise KfrecError(f"{place}: {PAD} is in line {ids[PAD] + 1}; make it the first, since 0 is padding")
    return SpecialTokens(*(ids[name] for name in NAMES))


def special_tokens(spec: FeatureSpec) -> SpecialTokens:
    """The special tokens of samples.

    Raises:
        KfrecError: the specification does not name them.
    """
    listed: Any = spec.metadata.get(TOKENS)
    try:
        return SpecialTokens(**{name: int(number) for name, number in listed.items()})
    except (AttributeError, TypeError, ValueError):
        raise KfrecError(
            f"{spec.folder / FILENAME}: metadata has {TOKENS} {listed!r}; prepare the texts with a data set that "
            f"writes {TOKENS}: {{pad: 0, unknown: 1, cls: 2, sep: 3, mask: 4}}"
        ) from None
