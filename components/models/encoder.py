"""What the models of texts share: the channel of tokens, the sizes, and the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec, ListLength
from components.feature_spec.spec import FILENAME
from components.parameters import param
from components.text.special import CHANNEL

if TYPE_CHECKING:
    from components.models.layers.transformer import Sizes

SMALL, BASE, LARGE = "small", "base", "large"


@dataclass(frozen=True)
class _Published:
    """Sizes of a published model."""

    layers: int
    width: int
    heads: int
    feed_forward: int
    embedding: int
    generator_share: float


# Clark et al., ELECTRA, table 6.
PUBLISHED = {
    SMALL: _Published(12, 256, 4, 1024, 128, 1 / 4),
    BASE: _Published(12, 768, 12, 3072, 768, 1 / 3),
    LARGE: _Published(24, 1024, 16, 4096, 1024, 1 / 4),
}


@dataclass(frozen=True)
class EncoderParameters:
    """Sizes of an encoder of texts; one that is 0 is that of the published model."""

    electra_size: str = param(
        BASE, "Published model whose sizes hold where another parameter is 0", choices=(*PUBLISHED,)
    )
    encoder_layers: int = param(0, "Layers of the encoder", unit="layers", at_least=0, at_most=1000)
    encoder_width: int = param(0, "Width of a token's state in the encoder", unit="floats", at_least=0, at_most=65_536)
    attention_heads: int = param(0, "Attention heads of a layer, which divide its width", at_least=0, at_most=65_536)
    feed_forward_width: int = param(
        0, "Hidden width of a layer's feed-forward network", unit="floats", at_least=0, at_most=1 << 20
    )
    token_width: int = param(
        0, "Width of a token's embedding; a layer projects it to another width of the encoder", unit="floats",
        at_least=0, at_most=65_536,
    )  # fmt: skip
    positions: int = param(512, "Positions that have an embedding, the longest text", unit="tokens", at_least=1)
    initial_deviation: float = param(
        0.02,
        "Standard deviation of fresh kernels and embeddings; the default is as published, narrow encoders need more",
        at_least=0,
        at_most=1,
    )
    hidden_dropout: float = param(
        0.1, "Dropout of the embeddings and of the parts of a layer", at_least=0, at_most=0.99
    )
    attention_dropout: float = param(0.1, "Dropout of the attention weights", at_least=0, at_most=0.99)

    @property
    def embedding_width(self) -> int:
        return self.token_width or PUBLISHED[self.electra_size].embedding

    @property
    def sizes(self) -> Sizes:
        """Of the encoder's layers."""
        from components.models.layers.transformer import Sizes

        published = PUBLISHED[self.electra_size]
        return Sizes(
            self.encoder_layers or published.layers,
            self.encoder_width or published.width,
            self.attention_heads or published.heads,
            self.feed_forward_width or published.feed_forward,
            self.hidden_dropout,
            self.attention_dropout,
            self.initial_deviation,
        )

    def check(self) -> None:
        """The heads divide the width.

        Raises:
            KfrecError: they do not.
        """
        published = PUBLISHED[self.electra_size]
        width, heads = self.encoder_width or published.width, self.attention_heads or published.heads
        if width % heads:
            raise KfrecError(
                f"parameter attention_heads={heads}: does not divide encoder_width={width}; each head has an equal "
                "part of the width"
            )


def heads_of(parameters: Mapping[str, Any]) -> int:
    """Attention heads of a model that was trained with these parameters."""
    return int(parameters.get("attention_heads") or PUBLISHED[str(parameters.get("electra_size", BASE))].heads)


# Parameters that a model has in common with the one whose weights it starts from.
SIZES = (
    "electra_size",
    "encoder_layers",
    "encoder_width",
    "attention_heads",
    "feed_forward_width",
    "token_width",
    "positions",
)


def check_positions(parameters: Any, lengths: Mapping[str, ListLength]) -> None:
    """The ``check`` of a model of texts.

    Raises:
        KfrecError: texts may be longer than the positions that have an embedding.
    """
    length = lengths.get(CHANNEL)
    if length is not None and length.values > parameters.positions:
        raise KfrecError(
            f"parameter {length.parameter}={length.values}: is longer than the positions={parameters.positions} that "
            "have an embedding; lower it, or raise positions"
        )


@dataclass(frozen=True)
class TextChannels:
    """The features of texts.

    Attributes:
        tokens: ids of the tokens, ``[B, length]``; 0 is padding, at the end.
        segments: 0 or 1 for each token.
    """

    tokens: Feature
    segments: Feature

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return (self.tokens.cardinality or 0) + 1

    @property
    def length(self) -> int:
        """Tokens of a sample, padding included."""
        return self.tokens.length or 0


def read_text(spec: FeatureSpec, parameters: EncoderParameters) -> TextChannels:
    """Reads the channel of tokens.

    Raises:
        KfrecError: there is none, or its features are not tokens and segments of one length, or longer than the
            positions that have an embedding.
    """
    path, features = spec.folder / FILENAME, spec.channel(CHANNEL)
    if len(features) != 2 or not features[0].length or features[0].length != features[1].length:
        found = ", ".join(f"{feature.name} [{feature.length}]" for feature in features) or "nothing"
        raise KfrecError(
            f"{path}: channel {CHANNEL} has {found}; name the tokens and their segments, lists of one length"
        )
    channels = TextChannels(*features)
    if channels.tokens.cardinality is None:
        raise KfrecError(f"{path}: feature {channels.tokens.name} has no cardinality; give its largest id")
    check_positions(parameters, {CHANNEL: ListLength(channels.length, channels.tokens.name)})
    return channels
