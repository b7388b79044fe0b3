"""ELECTRA: its parameters, how it is built, and its optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.encoder import SIZES, EncoderParameters, check_positions
from components.models.optimizers import make_optimizer
from components.parameters import param
from components.text.outputs import REPLACED_WEIGHT
from components.text.special import CHANNEL

if TYPE_CHECKING:
    from components.models.model import Model
    from components.models.optimizers.groups import OptimizerGroup


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


# Power of the decay from the peak of the learning rate to 0, and decays of the moments; of LAMB as published.
_DECAY_POWER = 0.5
_BETAS = {"lamb": (0.878, 0.974), "adamw": (0.9, 0.98)}


def _optimizers(parameters: Any, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import rise_and_fall, training_steps

    steps = training_steps(parameters, steps_per_epoch)
    beta_1, beta_2 = _BETAS[parameters.optimizer]
    optimizer = make_optimizer(
        parameters.optimizer,
        rise_and_fall(parameters.learning_rate, steps, parameters.warmup_share, _DECAY_POWER),
        weight_decay=parameters.weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
    )
    return [OptimizerGroup(optimizer, model.trainable_variables)]


MODEL = ModelDefinition(
    name="electra",
    title="ELECTRA",
    summary="Pre-trains an encoder of texts, which finds the tokens that a generator has replaced.",
    parameters=ElectraParameters,
    build=Lazy("components.models.electra.model:Electra"),
    optimizers=_optimizers,
    dataset="text",
    task="replaced_token",
    check=check_positions,
    needs=(CHANNEL,),
    inherited=(*SIZES, "generator_share"),
    # Of the first phase, on texts of 128 tokens; the micro-batch is that of a GPU of 40 GB in mixed precision.
    defaults={
        "epochs": 1000,
        "max_steps": 10_000,
        "steps_per_epoch": 500,
        "global_batch_size": 67_584,
        "micro_batch_size": 176,
        "clip_norm": 1.0,
        "evaluation_batch_size": 64,
    },
    # A small model learns from a small corpus in minutes, and sooner from short texts; LAMB is for larger batches.
    local_defaults={
        "epochs": 6,
        "max_seq_length": 64,
        "max_steps": 0,
        "steps_per_epoch": 0,
        "global_batch_size": 16,
        "micro_batch_size": 0,
        "encoder_layers": 4,
        "encoder_width": 128,
        "attention_heads": 4,
        "feed_forward_width": 512,
        "token_width": 128,
        "generator_share": 0.25,
        "initial_deviation": 0.06,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "warmup_share": 0.1,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    },
)
