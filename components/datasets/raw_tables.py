"""Raw files that are tables, of any name."""

from __future__ import annotations

from components.datasets.definition import RawKind

TABLES = RawKind(
    "tables",
    r"(?i)(?!(readme|license))[^._].*\.((csv|tsv|tab|txt|dat|data|test|parquet)(\.gz|\.zip)?|zip)",
    "*.csv, *.tsv, *.tab, *.txt, *.dat, *.data, *.test (plain, .gz or .zip), *.zip or *.parquet",
    "lines",
    partitioned=True,
)
