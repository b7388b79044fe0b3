"""The category of every item, from the metadata files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from components.datasets.amazon_reviews.metadata_line import parse_item
from components.datasets.amazon_reviews.names import check_name, decode
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block, table_of

ITEM = pa.schema([("asin", pa.string()), ("category", pa.dictionary(pa.int32(), pa.string()))])


def write_items(tables: Iterable[pa.Table], output: Path) -> None:
    """Writes all items to one Arrow file. An item listed twice keeps both rows: readers take the first."""
    items = pa.concat_tables([ITEM.empty_table(), *tables]).unify_dictionaries().combine_chunks()
    with pa.ipc.new_file(output, ITEM) as writer:
        writer.write_table(items)


def parse_items(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """Asin and category of each item in a block, and the malformed lines.

    The category is the last entry of the first path of ``categories``, null if there is none. Both are valid names; see
    ``names``.
    """
    rows, bad = block.parsed(_item)
    return table_of(rows, ITEM), bad


def _item(line: bytes) -> tuple[str, str | None]:
    text, is_utf8 = decode(line)
    asin, category = parse_item(text.strip())
    check_name(asin, "asin", is_utf8)
    if category is not None:
        check_name(category, "the category", is_utf8)
    return asin, category
