"""The sizes of the generator."""

from __future__ import annotations

import math

from components.models.electra.parameters import ElectraParameters
from components.models.encoder import PUBLISHED
from components.models.layers.transformer import Sizes


def generator_sizes(parameters: ElectraParameters) -> Sizes:
    """A share of the encoder's width in whole heads, and as many layers.

    Of the published base model a third of 12 heads of 64, which is 256.
    """
    sizes = parameters.sizes
    share = parameters.generator_share or PUBLISHED[parameters.electra_size].generator_share
    heads = math.ceil(round(sizes.heads * share, 6))
    width = heads * sizes.width // sizes.heads
    return sizes._replace(width=width, heads=heads, feed_forward=sizes.feed_forward * width // sizes.width)
