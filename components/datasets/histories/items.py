"""The category of every item, as an Arrow file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

ITEM = pa.schema([("asin", pa.string()), ("category", pa.dictionary(pa.int32(), pa.string()))])


def write_items(tables: Iterable[pa.Table], output: Path) -> None:
    """Writes all items to one Arrow file. An item listed twice keeps both rows: readers take the first."""
    items = pa.concat_tables([ITEM.empty_table(), *tables]).unify_dictionaries().combine_chunks()
    with pa.ipc.new_file(output, ITEM) as writer:
        writer.write_table(items)
