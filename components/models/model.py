"""The interfaces of a model and of an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from components.contract import LOGIT, only_label
from components.errors import KfrecError
from components.models.loss import CROSS_ENTROPY, LossTerm, cross_entropy

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from components.feature_spec import FeatureSpec


class Table(NamedTuple):
    """The rows of a variable that embed the ids of one feature.

    Attributes:
        variable: float32 ``[R, width]``, possibly shared with tables of other features.
        begin: the row of id 0.
        rows: number of rows, the largest id + 1.
        feature: name of the feature; empty if it is the table's name.
    """

    variable: tf.Variable
    begin: int
    rows: int
    feature: str = ""


class Model(Protocol):
    """The interface of a model to training, evaluation and export.

    Every model is a ``tf.Module`` whose variables exist once it is built.

    Attributes:
        serving_features: names of the features that ``outputs`` reads.
        tables: embedding tables, which warm starts translate and ranks may shard; the key of a feature's first table is
            the feature's name.
        trainable_variables: updated by optimizers, in a fixed order.
        variables: all variables, in a fixed order.
    """

    serving_features: tuple[str, ...]
    tables: Mapping[str, Table]

    @property
    def variables(self) -> Sequence[tf.Variable]: ...

    @property
    def trainable_variables(self) -> Sequence[tf.Variable]: ...

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> Mapping[str, tf.Tensor]:
        """Computes the outputs of samples.

        Args:
            features: integer ids or floats by feature name, ``[B]`` or ``[B, length]``; B may be 0. Ids outside
                0..cardinality are treated as 0, the padding.
            training: whether dropout is on.

        Returns:
            Tensors by name, ``[B, ...]`` each, which the task evaluates and maps to the served outputs.
        """

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[Mapping[str, tf.Tensor], Mapping[str, LossTerm]]:
        """Computes the outputs of samples and their losses.

        The training leaves the losses of padding samples out of its sums. Only a model whose losses relate the samples
        of a batch to each other needs the mask. Counts must depend on targets and mask alone, and not on other ranks.

        Args:
            features: as for ``outputs``, plus those that only training reads, such as a negative history.
            targets: the features of the channel ``label`` by name, ``[B]`` or ``[B, length]``: float32 for the dtypes
                bool and float32, integers for the others; empty without labels.
            mask: bool ``[B]``, false for padding samples, which repeat others to fill a batch up.
            training: whether dropout is on.

        Returns:
            The outputs, and the terms of the loss by name.
        """


@runtime_checkable
class Explaining(Protocol):
    """A model that can say what its outputs rest on, such as the items of a history that it looked at.

    The export adds a signature for it, the evaluation calls it for a few samples, and the definition's
    ``components.models.ModelDefinition.explanation`` turns the result into sections of the report.
    """

    def explain(self, features: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
        """The explanation of each sample.

        Args:
            features: as for ``Model.outputs``.

        Returns:
            Tensors by name, ``[B, ...]`` each.
        """


@runtime_checkable
class SharingUser(Protocol):
    """A model whose ``Model.outputs`` also scores many targets of one user, computing what does not depend on the
    target once: all features but the target's are then ``[1]`` or ``[1, length]``, with a static batch of 1.

    The export adds a signature for it, with which a catalogue is ranked.

    Attributes:
        target_features: names of the target's features, ``[B]``.
    """

    target_features: tuple[str, ...]


@runtime_checkable
class Retrieving(Protocol):
    """A model that orders a user's targets by the dot product of two vectors, one of the user and one of the target.

    The export adds a signature for each. A catalogue is ranked with them: its vectors are computed once.

    Attributes:
        target_inputs: names of the target's features among the serving features.
    """

    target_inputs: tuple[str, ...]

    def user_vectors(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The vectors of users, float32 ``[B, width]``, from the serving features that are not the target's."""

    def target_vectors(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The vectors of targets, float32 ``[B, width]``, from the target's features."""


@runtime_checkable
class Describing(Retrieving, Protocol):
    """One whose targets' vectors are sums, of which one part is a function of the columns of items.

    The export adds a signature for it, with which items are ranked that the model does not know.

    Attributes:
        item_columns: floats of the vector of an item's columns, see ``components.feature_spec.item_columns``; 0 where
            the data have none, and so no part.
    """

    item_columns: int

    def column_vectors(self, columns: tf.Tensor) -> tf.Tensor:
        """The part, float32 ``[B, width]``, from the vectors of the columns, float32 ``[B, item_columns]``."""


@runtime_checkable
class ScoringItems(Protocol):
    """A model that scores all items of a user at once, where no two vectors do.

    The export adds a signature for it, with which a catalogue is ranked.

    Attributes:
        target_inputs: names of the target's features among the serving features.
    """

    target_inputs: tuple[str, ...]

    def item_scores(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The scores of every item, float32 ``[B, rows]`` by the id of the target's first feature, whose softmax is the
        likelihood; from the serving features that are not the target's."""


@runtime_checkable
class ScoringNew(ScoringItems, Protocol):
    """One that scores items by their columns, too, which it does not know.

    Attributes:
        item_columns: see ``Describing``.
    """

    item_columns: int

    def new_scores(self, features: Mapping[str, tf.Tensor], columns: tf.Tensor) -> tf.Tensor:
        """Scores beside those of ``item_scores``, float32 ``[B, n]``.

        Args:
            features: of users, ``[B]`` or ``[B, length]``, and of the targets, ``[n]``.
            columns: vectors of the targets' columns, float32 ``[n, item_columns]``.
        """


@runtime_checkable
class Fitted(Protocol):
    """A model with statistics of the training samples, such as counts, that no gradient finds.

    A training that is not resumed takes them before its first step. They are variables that are not trainable, so
    checkpoints and the export have them.
    """

    def count(self, samples: Iterable[Mapping[str, np.ndarray]]) -> Sequence[np.ndarray]:
        """Counts this rank's training samples.

        Args:
            samples: batches of the targets and of the features that models read, as ``components.records`` has them.

        Returns:
            Columns of one length; those of all ranks are joined.
        """

    def fit(self, counts: Sequence[np.ndarray]) -> None:
        """Sets the variables from the joined columns; called on the first rank, whose variables the others get."""


def click_loss(
    model: Model,
    features: Mapping[str, tf.Tensor],
    targets: Mapping[str, tf.Tensor],
    mask: tf.Tensor,
    training: bool = True,
) -> tuple[Mapping[str, tf.Tensor], dict[str, LossTerm]]:
    """``Model.loss_terms`` of a model whose loss is the cross-entropy of its output LOGIT."""
    outputs = model.outputs(features, training)
    return outputs, {CROSS_ENTROPY: cross_entropy(only_label(targets), outputs[LOGIT])}


def require_interface(name: str, model: Any, spec: FeatureSpec) -> None:
    """Checks what the ``build`` of a definition returns.

    Args:
        name: for messages, such as "model sim".

    Raises:
        KfrecError: it lacks an attribute of ``Model``, or one is of the wrong type.
    """
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    for attribute in ("serving_features", "tables", "variables", "trainable_variables", "outputs", "loss_terms"):
        if not hasattr(model, attribute):
            raise KfrecError(
                f"{name}: build returns a {kind}, which has no {attribute}; derive it from tf.Module and give it one"
            )
    for feature in model.serving_features:
        if feature not in spec.features:
            raise KfrecError(
                f"{name}: {kind}.serving_features has {feature!r}, which is no feature of the data; name features of "
                f"the channels that the model reads, out of {', '.join(spec.features)}"
            )
    for feature, table in model.tables.items():
        if not isinstance(table, Table):
            raise KfrecError(f"{name}: {kind}.tables has {_described(table)} as {feature}; make it a Table")


def outputs_of(model: Model, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """``Model.outputs``, checked.

    Raises:
        KfrecError: it returns no mapping of tensors whose first axis is the batch.
    """
    return _checked(model, "outputs", model.outputs(features))


def loss_terms_of(
    model: Model,
    features: Mapping[str, tf.Tensor],
    targets: Mapping[str, tf.Tensor],
    mask: tf.Tensor,
    training: bool = True,
) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
    """``Model.loss_terms``, checked.

    Raises:
        KfrecError: it does not return outputs and terms, or the values of a term are not one a sample.
        tf.errors.InvalidArgumentError: the first axis of an output or of a term, whose size is not known before, is not
            the batch.
    """
    name, returned = _name_of(model, "loss_terms"), model.loss_terms(features, targets, mask, training)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise KfrecError(f"{name} returns {_described(returned)}; return the outputs and the terms of the loss")
    outputs, terms = returned
    if not isinstance(terms, Mapping) or not terms:
        raise KfrecError(
            f"{name} returns {_described(terms)} as terms of the loss; return at least one LossTerm by name"
        )
    for key, term in terms.items():
        if not isinstance(term, LossTerm):
            raise KfrecError(f"{name} returns {_described(term)} as term {key}; return a LossTerm")
        for part in ("total", "count"):
            values = getattr(term, part)
            if getattr(getattr(values, "shape", None), "rank", None) != 1:
                raise KfrecError(
                    f"{name}: the {part} of term {key} is {_described(values)}, not one value a sample; sum over all "
                    "axes but the first"
                )
    checked = _checked(model, "loss_terms", outputs)
    if training:
        for key, term in terms.items():
            _require_rows(f"{name}: the total of term {key}", term.total, mask)
            _require_rows(f"{name}: the count of term {key}", term.count, mask)
        for key, values in checked.items():
            _require_rows(f"{name}: output {key}", values, mask)
    return checked, dict(terms)


def _require_rows(what: str, values: tf.Tensor, mask: tf.Tensor) -> None:
    """Fails the step if the first axis is not the batch; XLA leaves the check out."""
    import tensorflow as tf

    from components.models.ops.choice import is_compiled

    message = f"{what} has another number of rows than the batch; return one row a sample"
    known = values.shape[0], mask.shape[0]
    if None not in known:  # as of the batches of a GPU, where a check in the graph costs kernels
        if known[0] != known[1]:
            raise KfrecError(message)
    elif not is_compiled():
        rows, batch = tf.shape(values)[0], tf.shape(mask)[0]
        tf.raw_ops.Assert(condition=tf.equal(rows, batch), data=[message, rows, batch])


def _checked(model: Model, method: str, outputs: Any) -> dict[str, tf.Tensor]:
    if not isinstance(outputs, Mapping) or not outputs:
        raise KfrecError(
            f"{_name_of(model, method)} returns {_described(outputs)} as outputs; return a mapping of names to tensors"
        )
    for name, values in outputs.items():
        if getattr(getattr(values, "shape", None), "rank", None) in (None, 0):
            raise KfrecError(
                f"{_name_of(model, method)}: output {name} is {_described(values)}; return a tensor whose first axis "
                "is the batch"
            )
    return dict(outputs)


def _name_of(model: Model, method: str) -> str:
    kind = type(model)
    return f"{kind.__module__}.{kind.__qualname__}.{method}"


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + ("" if shape is None else f" of shape {shape}")


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
