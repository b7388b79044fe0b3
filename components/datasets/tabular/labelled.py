"""Answered rows as tables: the model's own schema, with a label of 0 and 1 and a split by time."""

from __future__ import annotations

from collections.abc import Collection

import yaml

from components.datasets.definition import LabelledRows
from components.datasets.tabular.fitted import SERVED_SCHEMA
from components.datasets.tabular.raw_files import FILENAME, read_schema
from components.feature_spec import FeatureSpec
from components.settings_file import parse_yaml

_TIME = "served_at"
# Newest share of the rows, which tests.
_SHARE = 0.2
# Entries that say how the first tables were written; these are parquet.
_OF_FILES = ("files", "format", "delimiter", "quoting", "longest_record", "names")


def labelled_rows(spec: FeatureSpec, columns: Collection[str]) -> LabelledRows:
    """See ``components.datasets.definition.DatasetDefinition.labelled_rows``."""
    path = spec.folder / SERVED_SCHEMA
    text = path.read_text()
    schema, body = read_schema(str(path), text), parse_yaml(str(path), text)
    kept = {name: value for name, value in body.items() if name not in _OF_FILES}
    group = schema.group.column if schema.group else ""
    kept |= {
        "columns": {name: entry for name, entry in body["columns"].items() if name in (*columns, group)},
        "label": {"column": schema.label.column},
        "split": {"by": "time", "column": _TIME, "share": _SHARE},
        "drop": ["*"],
    }
    return LabelledRows(schema.label.column, _TIME, group, {FILENAME: yaml.safe_dump(kept, sort_keys=False)})
