"""The interface of an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import tensorflow as tf


class Optimizer(Protocol):
    """The interface of an optimizer, a ``tf.Module`` with checkpointed variables.

    Attributes:
        name: such as "adam".
        keeps_sparse: whether rows missing from a sparse gradient stay unchanged.
        takes_scaling: optional; ``apply`` takes a ``components.models.ops.scaling.Scaling`` as second argument,
            and gradients of a skipped step may not be finite. Otherwise mixed precision costs a pass over the
            gradients, and a condition for which the host waits for the device.
    """

    @property
    def name(self) -> str: ...

    @property
    def keeps_sparse(self) -> bool: ...

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the state for ``variables``, before a checkpoint is restored or a step is compiled."""

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]]) -> None:
        """Applies one step. A gradient is a tensor or ``tf.IndexedSlices``, possibly with repeated rows."""
