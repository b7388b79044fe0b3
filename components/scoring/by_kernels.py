"""The model behind an export, built again, so that the kernels which train it also score it.

An exported model computes by TensorFlow's operations, as whoever serves it has nothing else. The kernels score 1.5 to
1.8 times as fast, but take a second to begin, and a new pod about 8 s to compile. What is scored stays the exported
model: both have to agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from components.compiled import is_kept
from components.errors import KfrecError
from components.models.registry import build_model
from components.scoring.model import OUTPUT, ExportedModel
from components.steps.catalog import TrainParameters
from components.steps.parameter import build

# Samples from which on kernels take less time in all, compiled before or not.
_WORTH_BEGINNING, _WORTH_COMPILING = 150_000, 1_000_000
_SAMPLES = 256
_TOLERANCE = 1e-5  # of a probability
# A thread's samples at a time: calling the kernels takes longer than what the caches then hold no more.
_PART = 8192


def is_worthwhile(samples: int) -> bool:
    """Whether scoring so many samples by kernels takes less time in all."""
    from components.models.kernels.products import multiply

    return samples >= (_WORTH_BEGINNING if is_kept(multiply) else _WORTH_COMPILING)


def rebuilt(model: ExportedModel, batch: Mapping[str, np.ndarray]) -> ExportedModel:
    """A model that scores as ``model`` does, by kernels.

    Args:
        model: a loaded model.
        batch: samples that it reads, of which the first few are scored by both.

    Returns:
        The model itself on a GPU; and, which is told, where kernels cannot do what it does: in mixed precision, or
        where another version of the code has trained it and this one's model says something else.
    """
    import tensorflow as tf

    if tf.config.get_visible_devices("GPU"):
        return model
    again = _by_kernels(model, batch)
    few = {name: batch[name][:_SAMPLES] for name in model.inputs}
    if again and np.allclose(again.begin(few)(), model.begin(few)(), rtol=0, atol=_TOLERANCE):
        return again
    print(f"{model.folder}: scored without kernels, as this version's do not compute what it does", flush=True)
    return model


def _by_kernels(model: ExportedModel, batch: Mapping[str, np.ndarray]) -> ExportedModel | None:
    """What its parameters and weights make of this version's model; None where they do not fit."""
    import tensorflow as tf

    from components.models.kernels.host import host_kernels

    if not model.parameters:
        return None
    try:
        parameters = build(TrainParameters, model.parameters)
        again = build_model(parameters, model.spec)
    except KfrecError:
        return None
    mine = list(again.variables)
    if parameters.amp or [own.shape for own in mine] != [other.shape for other in model.weights]:
        return None
    for own, other in zip(mine, model.weights, strict=True):
        own.assign(other)

    @tf.function(autograph=False)
    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        with host_kernels():
            return {OUTPUT: tf.sigmoid(again.logits(features, training=False))}

    shapes = {name: tf.TensorSpec([None, *batch[name].shape[1:]], tf.int64, name=name) for name in model.inputs}
    return dataclasses.replace(model, signature=serve.get_concrete_function(**shapes), part=_PART)
