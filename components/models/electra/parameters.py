"""Parameters of ELECTRA's pre-training."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.encoder import EncoderParameters
from components.parameters import param
from components.text.outputs import REPLACED_WEIGHT


@dataclass(frozen=True)
class ElectraParameters(EncoderParameters):
    """Sizes, masking and optimizer, with the published values of the base model as defaults."""

    generator_share: float = param(
        0.0,
        "Width of the generator as a share of the encoder's, rounded up to whole attention heads; 0 is that of "
        "electra_size",
        at_least=0,
        at_most=1,
    )
    masked_share: float = param(
        0.15, "Share of a text's tokens that the generator predicts", at_least=0.01, at_most=0.9
    )
    replaced_weight: float = param(
        REPLACED_WEIGHT, "Weight of the discriminator's loss; the generator's has the weight 1", at_least=0
    )
    optimizer: str = param("lamb", "Optimizer; lamb is for batches of thousands of texts", choices=("lamb", "adamw"))
    learning_rate: float = param(6e-3, "Peak learning rate", at_least=0)
    warmup_share: float = param(
        0.2, "Share of the training's steps in which the learning rate rises from 0 to its peak", at_least=0, at_most=1
    )
    weight_decay: float = param(0.01, "Weight decay of kernels and embeddings, times the learning rate", at_least=0)
