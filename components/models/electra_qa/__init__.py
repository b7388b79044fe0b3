"""ELECTRA for questions: its parameters, how it is built, and its optimizer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.encoder import SIZES, EncoderParameters, check_positions
from components.models.optimizers import make_optimizer
from components.parameters import param
from components.text.special import CHANNEL

if TYPE_CHECKING:
    from components.models.model import Model
    from components.models.optimizers.groups import OptimizerGroup


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


# The scope of the head, which no pre-trained model has.
HEAD = "answer/"


def depth_of(name: str, layers: int) -> int:
    """The layer of a weight: 0 for the embeddings, i + 1 for layer i, and ``layers`` + 2 for the head."""
    layer = re.match(r"encoder/layer_(\d+)/", name)
    if layer:
        return int(layer[1]) + 1
    return layers + 2 if name.startswith(HEAD) else 0


def _optimizers(parameters: Any, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import rise_and_fall, training_steps

    steps, layers = training_steps(parameters, steps_per_epoch), parameters.sizes.layers
    optimizer = make_optimizer(
        "adamw",
        rise_and_fall(parameters.learning_rate, steps, parameters.warmup_share),
        weight_decay=parameters.weight_decay,
        factor=lambda variable: parameters.layer_decay ** (layers + 2 - depth_of(variable.name, layers)),
    )
    return [OptimizerGroup(optimizer, model.trainable_variables)]


MODEL = ModelDefinition(
    name="electra_qa",
    title="ELECTRA for questions",
    summary="Finds the answer to a question in a text, with the encoder of a pre-trained ELECTRA.",
    parameters=ElectraQaParameters,
    build=Lazy("components.models.electra_qa.model:ElectraQa"),
    optimizers=_optimizers,
    dataset="squad",
    task="question_answering",
    check=check_positions,
    needs=(CHANNEL,),
    inherited=SIZES,
    fresh=(HEAD,),
    defaults={"epochs": 2, "global_batch_size": 32, "clip_norm": 1.0, "evaluation_batch_size": 256},
    # The sizes of the small model that kfrec run pre-trains. It has little to keep from its pre-training and learns few
    # questions, so that all of its layers learn at one rate, without dropout; and its odds of having no answer are not
    # as extreme as those of a published model, whose threshold would leave all questions unanswered.
    local_defaults={
        "epochs": 4,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "layer_decay": 1.0,
        "null_threshold": 0.0,
        "encoder_layers": 4,
        "encoder_width": 128,
        "attention_heads": 4,
        "feed_forward_width": 512,
        "token_width": 128,
        "initial_deviation": 0.06,
        "learning_rate": 1e-3,
        "max_seq_length": 128,
        "doc_stride": 48,
        "max_query_length": 32,
    },
)
