"""Dask as Merlin of 2023 needs it: import it from here before anything that imports ``dask.dataframe``.

Merlin knows Dask's legacy data frames only, and lists of strings as they are: by default Dask makes each list a string.
"""

from __future__ import annotations

import warnings

import dask

dask.config.set({"dataframe.query-planning": False, "dataframe.convert-string": False})
for _expected in (r"The legacy Dask DataFrame implementation", r"\s*Dask dataframe query planning is disabled"):
    warnings.filterwarnings("ignore", message=_expected, category=FutureWarning)

from dask import dataframe  # noqa: E402

__all__ = ["dask", "dataframe"]
