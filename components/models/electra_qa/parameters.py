"""Parameters of ELECTRA's fine-tuning to questions."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.encoder import EncoderParameters
from components.parameters import param


@dataclass(frozen=True)
class ElectraQaParameters(EncoderParameters):
    """Sizes of the encoder, those of its pre-training, and the optimizer, with the published values as defaults."""

    beam: int = param(
        5, "Starts of an answer that are scored further, and ends of each of them", at_least=1, at_most=100
    )
    learning_rate: float = param(2e-4, "Peak learning rate of the head; the default suits batches of 32", at_least=0)
    layer_decay: float = param(
        0.8, "Factor of the learning rate from each layer to the one below it; 1 is one rate for all", at_least=0.01,
        at_most=1,
    )  # fmt: skip
    warmup_share: float = param(
        0.05, "Share of the training's steps in which the learning rate rises from 0 to its peak", at_least=0, at_most=1
    )
    weight_decay: float = param(0.01, "Weight decay of kernels and embeddings, times the learning rate", at_least=0)
