"""Raw rows in, outputs out: the one definition behind the registered model, predict and recommend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from components import registry
from components.datasets.raw_rows import Answering, Encoded, RawColumn, RawRows
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.scoring.model import ExportedModel, load_model
from components.workflows.values import plain_type

# Output column: the number of a row's ids that are not in the vocabulary.
UNKNOWN = "unknown_ids"


@dataclass(frozen=True)
class Scored:
    """Outputs of rows.

    Attributes:
        outputs: of the model by name, or its answers, ``[n, ...]`` each.
        unknown: column to the number of its ids outside the vocabulary, per row ``[n]``.
    """

    outputs: Mapping[str, np.ndarray]
    unknown: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.outputs.values())))

    @property
    def unknown_ids(self) -> np.ndarray:
        """Over all columns, int32 ``[n]``."""
        return sum(self.unknown.values(), start=np.zeros(self.rows, np.int32))


@dataclass(frozen=True)
class RawModel:
    """A model that takes raw rows."""

    model: ExportedModel
    rows: RawRows
    dataset: str

    @property
    def columns(self) -> tuple[RawColumn, ...]:
        """The columns that it reads."""
        return self.rows.columns

    @property
    def outputs(self) -> tuple[str, ...]:
        """The output columns: the model's outputs, or its answers, and the number of unknown ids."""
        return (*(self.rows.answers if isinstance(self.rows, Answering) else self.model.outputs), UNKNOWN)

    def nothing(self) -> dict[str, np.ndarray]:
        """The outputs of no rows."""
        if isinstance(self.rows, Answering):
            return {name: np.zeros(0, kind) for name, kind in self.rows.answers.items()}
        return self.model.nothing()

    def column_of(self, role: str) -> RawColumn | None:
        """The column of a role; None if the data set has none."""
        return next((column for column in self.columns if column.role == role), None)

    def require(self, names: Iterable[str]) -> None:
        """Checks the names of columns.

        Raises:
            KfrecError: a column that the model reads is missing.
        """
        has = list(names)
        for column in self.columns:
            if column.name not in has:
                raise KfrecError(
                    f"has no column {column.name} ({column.help}); the model reads "
                    f"{', '.join(column.name for column in self.columns)}, and it has {', '.join(has) or 'none'}"
                )

    def begin(self, rows: Mapping[str, pa.Array]) -> Callable[[], Scored]:
        """Encodes rows and starts scoring them; see ``ExportedModel.begin``.

        Args:
            rows: column to values; see ``components.datasets.raw_rows.RawRows.encode``.

        Raises:
            KfrecError: a column is missing or invalid.
        """
        self.require(rows)
        columns = {column.name: plain_type(column.name, rows[column.name]) for column in self.columns}
        read: Encoded = self.rows.encode(columns)
        count = len(read.features[self.model.inputs[0]])
        outputs = self.model.begin(read.features) if count else self.model.nothing
        encoder, parameters = self.rows, self.model.parameters
        if isinstance(encoder, Answering):
            return lambda: Scored(encoder.answer(columns, read, outputs(), parameters), read.unknown)
        return lambda: Scored(outputs(), read.unknown)

    def score(self, rows: Mapping[str, pa.Array]) -> Scored:
        """Encodes and scores rows; see ``begin``."""
        return self.begin(rows)()


def load_raw_model(folder: Path | str) -> RawModel:
    """Loads a folder's model with its encoder of raw rows.

    Raises:
        KfrecError: there is no model, or its data set encodes no raw rows.
    """
    return raw_model(load_model(folder))


def raw_model(model: ExportedModel) -> RawModel:
    """A loaded model with its encoder of raw rows.

    Raises:
        KfrecError: its data set encodes no raw rows, or files for encoding are missing.
    """
    name = dataset_of(model.spec)
    make = registry.dataset(name).raw_rows if name else None
    if make is None:
        raise KfrecError(f"{model.folder}: {refusal_of_rows(model.spec)}")
    return RawModel(model, make(model.spec, model.inputs), name)


def refusal_of_rows(spec: FeatureSpec) -> str:
    """Why models of these samples take only encoded features, and the remedy; empty if they take raw rows."""
    name = dataset_of(spec)
    if not name:
        reason = "its feature_spec.yaml names no data set that encodes raw rows, as that of an earlier kfrec"
        return f"{reason}; train again, or score records with the evaluate step"
    dataset = registry.dataset(name)
    if dataset.raw_rows is not None:
        return ""
    why = f", because {dataset.no_raw_rows}" if dataset.no_raw_rows else ""
    return (
        f"the data set {name} encodes no raw rows{why}; bring new raw files to preprocess, with workflow naming the "
        "model's data, and score the records with the evaluate step"
    )


def dataset_of(spec: FeatureSpec) -> str:
    """The samples' data set, as recorded by preprocessing; empty if unknown."""
    noted = spec.metadata.get("encoding")
    return str(noted.get("dataset") or "") if isinstance(noted, dict) else ""
