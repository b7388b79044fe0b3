"""Parameters of every data set of texts."""

from __future__ import annotations

from components.parameters import param

VOCAB_SIZE = param(
    30_522,
    "Tokens of a new vocabulary, fitted to the training texts where no vocab.txt lies beside them and workflow is "
    "empty; a small corpus makes fewer",
    unit="tokens",
    at_least=6,
    at_most=1_000_000,
)
