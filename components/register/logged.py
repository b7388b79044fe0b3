"""A model, or a pair, as logged to MLflow: code, signature, example and description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.datasets.raw_rows import BESIDE, CANDIDATE, CONTEXT, HISTORY, USER, VALUE, SampledNegatives
from components.errors import KfrecError
from components.scoring import ExportedModel, RawModel, raw_model
from components.scoring.catalogue import Catalogue
from components.scoring.pair import Pair
from components.scoring.raw import UNKNOWN
from components.scoring.recommend import columns_of

Example = Callable[[], Mapping[str, np.ndarray]]
# Length of the list that a served pair returns unless a request asks for another one.
_TOP = 20
_CHOICES = (
    "`keep_seen` says whether items of the history are ranked, too, and without it they are if they were in the "
    "model's evaluation; `candidates` are the items to choose from, `exclude` those that are left out, and "
    "`per_category` is the most items of a category"
)


@dataclass(frozen=True)
class Logged:
    """How a model is logged.

    Attributes:
        description: of inputs and outputs, for users.
    """

    code: Path
    signature: Any
    example: Any
    description: str


def logged(model: ExportedModel, example: Example) -> Logged:
    """A model of raw rows if its data set can encode them, else one of encoded features.

    Args:
        example: returns samples by feature; called only for a model of encoded features.
    """
    try:
        return _of_rows(raw_model(model))
    except KfrecError as error:
        return _of_features(model, example, str(error))


def _of_rows(model: RawModel) -> Logged:
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    # Text and integers are ids, alone and in lists, which no other type of MLflow says.
    inputs: list[ColSpec | TensorSpec] = [
        ColSpec(AnyType(), column.name, required=column.kind != VALUE and column.role != CANDIDATE)
        for column in model.columns
    ]
    ranks = model.column_of(CANDIDATE) is not None
    if ranks and model.column_of(USER) is None:
        inputs.append(ColSpec(AnyType(), USER, required=False))
    returned = model.nothing()
    outputs: list[ColSpec | TensorSpec] = [ColSpec(_kind_of(values), name) for name, values in returned.items()]
    outputs.append(ColSpec(DataType.integer, UNKNOWN))
    takes = "\n".join(f"- `{column.name}`: {column.help}" for column in model.columns)
    return Logged(
        Path(__file__).with_name("served.py"),
        ModelSignature(Schema(inputs), Schema(outputs), ParamSchema(_of_lists(0) if ranks else [])),
        pd.DataFrame(model.rows.example()),
        f"Takes raw rows of the data set {model.dataset}:\n\n{takes}\n\nReturns {_names(returned)}, and as "
        f"`{UNKNOWN}` how many ids of the row the model has never seen.{_meaning(model)}"
        + (_ranking(model) if ranks else ""),
    )


def logged_pair(pair: Pair) -> Logged:
    """A pair, which takes users and histories and returns lists."""
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, Schema
    from mlflow.types.schema import AnyType

    ranker = pair.ranker
    user, rank, item, value, flag = columns_of(pair.catalogue())
    read = [column for column in ranker.columns if column.role in (USER, HISTORY, BESIDE, CONTEXT)]
    returned = {user: DataType.string, rank: DataType.integer, item: DataType.string}
    returned |= {value: DataType.double, flag: DataType.string}
    takes = "\n".join(f"- `{column.name}`: {column.help}" for column in read)
    return Logged(
        Path(__file__).with_name("served.py"),
        ModelSignature(
            Schema([ColSpec(AnyType(), column.name) for column in read]),
            Schema([ColSpec(kind, name) for name, kind in returned.items()]),
            ParamSchema(_of_lists(_TOP)),
        ),
        pd.DataFrame({column.name: ranker.rows.example()[column.name] for column in read}),
        f"Takes raw rows of the data set {ranker.dataset}:\n\n{takes}\n\nReturns the `top` best items of each row, "
        f"with the columns {_names(returned)}, as from `kfrec recommend`: of the {pair.retrieve:,} that the first "
        f"stage retrieves, in the order of both stages' weighed scores; {_CHOICES}.",
    )


def _of_lists(top: int) -> list[Any]:
    """The parameters of a request for lists, as of ``components.scoring.served.Served.predict``."""
    from mlflow.types import DataType, ParamSpec

    return [
        ParamSpec("top", DataType.long, top),
        ParamSpec("keep_seen", DataType.boolean, None),
        ParamSpec("candidates", DataType.string, [], shape=(-1,)),
        ParamSpec("exclude", DataType.string, [], shape=(-1,)),
        ParamSpec("per_category", DataType.long, 0),
    ]


def _names(outputs: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in outputs)


def _kind_of(values: np.ndarray) -> Any:
    from mlflow.types import DataType
    from mlflow.types.schema import Array

    kind: Any = {"f": DataType.float, "b": DataType.boolean, "U": DataType.string, "S": DataType.string}.get(
        values.dtype.kind, DataType.long
    )
    for _ in values.shape[1:]:
        kind = Array(kind)
    return kind


def _meaning(model: RawModel) -> str:
    """What the score is a probability of, if half of the samples that the model learned from were drawn."""
    if not isinstance(model.rows, SampledNegatives) or PROBABILITY not in model.model.outputs:
        return ""
    return (
        f" `{PROBABILITY}` is that the item is the one that the user chose rather than a sampled negative: p / (1 - p) "
        "is the lift, how much likelier the user chooses the item than a draw does. It is not the probability that the "
        "user chooses it next."
    )


def _ranking(model: RawModel) -> str:
    user, _, item, value, flag = columns_of(Catalogue(model))
    return (
        f"\n\nWith the parameter `top`, rows without `{item}` get a list of the best candidates each, with the columns "
        f"`{user}`, `rank`, `{item}`, `{value}` and `{flag}`, as from `kfrec recommend`; {_CHOICES}."
    )


def _of_features(model: ExportedModel, example: Example, why: str) -> Logged:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec

    samples, returned = example(), model.nothing()
    inputs: dict[str, np.ndarray] = {
        name: np.asarray(samples[name], np.float32 if model.spec.features[name].is_float else np.int64)
        for name in model.inputs
    }
    specs: list[ColSpec | TensorSpec] = [
        TensorSpec(values.dtype, (-1, *values.shape[1:]), name) for name, values in inputs.items()
    ]
    return Logged(
        Path(__file__).with_name("served_features.py"),
        ModelSignature(
            Schema(specs),
            Schema([TensorSpec(each.dtype, (-1, *each.shape[1:]), name) for name, each in returned.items()]),
        ),
        inputs,
        f"Takes encoded features: {why.removeprefix(f'{model.folder}: ')}. Returns {_names(returned)}.",
    )


def requirements() -> list[str]:
    """The requirements of a server that loads the model: the versions that wrote it.

    kfrec is excluded: the image provides it, not a package index.
    """
    wanted = [f"{name}=={version(name)}" for name in ("mlflow", "numpy")]
    for tensorflow in ("tensorflow-cpu", "tensorflow"):
        with suppress(PackageNotFoundError):
            return [*wanted, f"{tensorflow}=={version(tensorflow)}"]
    return wanted
