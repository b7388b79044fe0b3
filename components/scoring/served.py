"""A model of raw rows, or a pair of them, as a server calls it: tables in, tables out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa

from components.datasets.raw_rows import CANDIDATE, HISTORY, USER, listed
from components.errors import KfrecError
from components.scoring.catalogue import Catalogue
from components.scoring.model import as_column
from components.scoring.pair import is_pair, load_pair
from components.scoring.raw import UNKNOWN, load_raw_model
from components.scoring.recommend import recommend
from components.workflows.values import array_of


class Served:
    """Scores rows, or ranks all candidates for rows without one.

    Args:
        folder: the model's, or the pair's, of which the ranker scores rows.
    """

    def __init__(self, folder: Path) -> None:
        self._pair = load_pair(folder) if is_pair(folder) else None
        self.model = self._pair.ranker if self._pair else load_raw_model(folder)

    def predict(
        self,
        rows: pd.DataFrame,
        top: int = 0,
        keep_seen: bool | None = None,
        candidates: Sequence[str] = (),
        exclude: Sequence[str] = (),
        per_category: int = 0,
    ) -> pd.DataFrame:
        """Scores rows or, with ``top``, ranks the candidates of the vocabulary for each row.

        Args:
            rows: the model's columns; without the candidate's if ``top`` is above 0.
            top: length of a row's list; 0 scores the rows.
            keep_seen: whether items of the history are ranked, too; None is what the model was judged by.
            candidates: items to rank; empty ranks all of the vocabulary.
            exclude: items that are not ranked.
            per_category: most items of a category in a list; 0 is any number.

        Returns:
            The model's output and the number of unknown ids, a row each; or the lists of all rows, one after the other,
            as ``components.scoring.recommend.Recommended`` describes them.

        Raises:
            KfrecError: a column is missing or one too many.
        """
        read = {column.name for column in self.model.columns}
        # Without rows, a table's types are arbitrary; MLflow makes lists float64.
        columns = {
            name: array_of(name, rows[name]) if len(rows) else pa.nulls(0) for name in rows.columns if name in read
        }
        item = self.model.column_of(CANDIDATE)
        if not top:
            if len(candidates) or len(exclude) or per_category:
                raise KfrecError(
                    "parameters candidates, exclude and per_category are of lists; give the parameter top, too"
                )
            if item is not None and item.name not in columns:
                raise KfrecError(
                    f"the rows have no column {item.name}; give the candidates to score, or the parameter top to rank "
                    "all of them"
                )
            scored = self.model.score(columns)
            return pd.DataFrame(
                {
                    **{name: as_column(values).to_pandas() for name, values in scored.outputs.items()},
                    UNKNOWN: scored.unknown_ids,
                }
            )
        if top < 0:
            raise KfrecError(f"parameter top={top} is below 0; give the length of a list")
        if per_category < 0:
            raise KfrecError(f"parameter per_category={per_category} is below 0; give the items of a category, or 0")
        if item is not None and item.name in columns:
            raise KfrecError(
                f"the rows have a column {item.name} and the parameter top={top}; drop the column to rank all "
                "candidates, or the parameter to score these"
            )
        catalogue = self._catalogue(pa.array(list(candidates), pa.string())) if len(candidates) else self.catalogue
        self.model.require([*columns, catalogue.column.name])
        by_role = {role: column for role in (USER, HISTORY) if (column := self.model.column_of(role))}
        names = columns[by_role[USER].name].to_pylist() if USER in by_role else _users(rows)
        histories = columns[by_role[HISTORY].name].to_pylist() if HISTORY in by_role else [[]] * len(rows)
        excluded = [list(exclude)] * len(rows)
        lists = recommend(
            catalogue,
            names,
            list(map(listed, histories)),
            top,
            keep_seen=keep_seen,
            excluded=excluded,
            per_category=per_category,
        )
        table: pd.DataFrame = lists.table.to_pandas()
        return table

    @cached_property
    def catalogue(self) -> Catalogue:
        """Every candidate of the vocabulary."""
        return self._catalogue(None)

    def _catalogue(self, candidates: pa.Array | None) -> Catalogue:
        if self._pair:
            return self._pair.catalogue(lambda model: Catalogue(model, candidates))
        return Catalogue(self.model, candidates)


def _users(rows: pd.DataFrame) -> list[str]:
    """Whose lists they are, for a model that does not read users."""
    return rows[USER].astype(str).tolist() if USER in rows.columns else [""] * len(rows)
