"""A model of encoded features as a server calls it, for data sets that encode no raw rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.errors import KfrecError
from components.scoring.model import as_column, load_model
from components.scoring.served import Answer, Request, Tensor, parts_of, tensor_of, without_parameters


class ServedFeatures:
    """Scores samples of encoded features; the methods are those of ``components.scoring.served.Served``."""

    user = item = ""

    def __init__(self, folder: Path) -> None:
        self.model = load_model(folder)
        features = {name: self.model.spec.features[name] for name in self.model.inputs}
        self.takes = {
            name: Tensor("float32" if feature.is_float else "int64", (feature.length,) if feature.length else ())
            for name, feature in features.items()
        }
        self.returns = {name: tensor_of(values) for name, values in self.model.nothing().items()}
        self._largest = {name: feature.cardinality for name, feature in features.items()}

    def request(self, given: Mapping[str, Any], rows: int, parameters: Mapping[str, Any]) -> Request:
        """Checks a request.

        Args:
            given: feature to ids or numbers, ``[rows]`` or ``[rows, length]``; others are ignored.
            rows: number of samples.
            parameters: none.

        Raises:
            KfrecError: a feature is missing, has another shape or type, or an id that its table does not have.
        """
        without_parameters(parameters)
        if lacking := [name for name in self.takes if name not in given]:
            raise KfrecError(f"has no feature {', '.join(lacking)}; the model reads {', '.join(self.takes)}")
        return Request({name: self._values(name, given[name], rows) for name in self.takes}, rows)

    def _values(self, name: str, given: Any, rows: int) -> np.ndarray:
        wanted, largest = self.takes[name], self._largest[name]
        shape = (rows, *wanted.shape)
        try:
            values = np.asarray(given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else given)
        except ValueError:  # lists of different lengths
            values = np.zeros(0)
        if values.shape != shape or values.dtype.kind not in ("iuf" if wanted.dtype == "float32" else "iu"):
            raise KfrecError(f"feature {name} is to be {wanted.dtype} of the shape {list(shape)}; correct its values")
        if largest is not None and rows and not 0 <= values.min() <= values.max() <= largest:
            raise KfrecError(f"feature {name} has ids from {values.min()} to {values.max()}; there are 0 to {largest}")
        return values.astype(wanted.dtype)

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Scores the samples of requests together."""
        rows = [request.rows for request in requests]
        batch = {name: np.concatenate([request.columns[name] for request in requests]) for name in self.takes}
        outputs = self.model.begin(batch)() if sum(rows) else self.model.nothing()
        table = pa.table({name: as_column(values) for name, values in outputs.items()})
        return [Answer(table.slice(part.start, part.stop - part.start), 0) for part in parts_of(rows)]

    def example(self) -> list[Request]:
        return [Request({name: np.zeros((1, *each.shape), each.dtype) for name, each in self.takes.items()}, 1)]
