"""Parameters of DLRM."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.models.parameters import BATCH_NORMALIZATION, EMBEDDING_L2
from components.parameters import Ints, param

SGD, ADAM = "sgd", "adam"


@dataclass(frozen=True)
class DlrmParameters:
    """Sizes and learning rates, with the names and defaults of the public DLRM documentation."""

    embedding_dim: int = param(128, "Width of one feature's embedding", unit="floats", at_least=1, at_most=4096)
    bottom_mlp_dims: Ints = param(
        (512, 256, 128), "Layers over the numerical features; the last is as wide as an embedding", at_least=1,
        at_most=65_536,
    )  # fmt: skip
    top_mlp_dims: Ints = param(
        (1024, 1024, 512, 256, 1), "Layers over the interactions; the last is the logit", at_least=1, at_most=65_536
    )
    bottom_dropout: float = param(0.0, "Dropout of the bottom network's layers but the last", at_least=0, at_most=0.99)
    top_dropout: float = param(0.0, "Dropout of the top network's hidden layers", at_least=0, at_most=0.99)
    batch_normalization: bool = BATCH_NORMALIZATION
    embedding_l2: float = EMBEDDING_L2
    optimizer: str = param(SGD, "Optimizer; adam updates only the table rows in the batch", choices=(SGD, ADAM))
    learning_rate: float = param(24.0, "Peak learning rate; the default suits SGD and batches of 65,536", at_least=0)
    warmup_steps: int = param(8000, "Warm-up steps, from a learning rate of 0 to its peak", unit="steps", at_least=0)
    decay_start_step: int = param(48_000, "Step at which the learning rate starts to decay", unit="steps", at_least=0)
    decay_steps: int = param(
        24_000, "Steps of the decay to 0, after which nothing is learned; 0 keeps the peak learning rate",
        unit="steps", at_least=0,
    )  # fmt: skip

    def check(self) -> None:
        """The layers fit each other.

        Raises:
            KfrecError: they do not.
        """
        if not self.bottom_mlp_dims or self.bottom_mlp_dims[-1] != self.embedding_dim:
            raise KfrecError(
                f"parameter bottom_mlp_dims={_joined(self.bottom_mlp_dims)} does not end in "
                f"embedding_dim={self.embedding_dim}; its result interacts with the embeddings, so make them equal"
            )
        if not self.top_mlp_dims or self.top_mlp_dims[-1] != 1:
            raise KfrecError(
                f"parameter top_mlp_dims={_joined(self.top_mlp_dims)} does not end in 1, the logit; append a 1"
            )


def _joined(dims: Ints) -> str:
    return ",".join(map(str, dims))
