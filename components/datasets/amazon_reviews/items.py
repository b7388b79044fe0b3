"""The category of every item, from the metadata files."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from components.datasets.amazon_reviews.metadata_line import parse_item
from components.datasets.amazon_reviews.names import check_name, decode
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block

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
    asins: list[str] = []
    categories: list[str | None] = []
    bad: list[BadLine] = []
    for number, line in enumerate(io.BytesIO(block.text), start=block.first_line):
        if line.isspace():
            continue
        try:
            text, is_utf8 = decode(line)
            asin, category = parse_item(text.strip())
            check_name(asin, "asin", is_utf8)
            if category is not None:
                check_name(category, "the category", is_utf8)
        except ValueError as error:
            bad.append(BadLine(number, str(error), line.rstrip(b"\r\n")))
            continue
        asins.append(asin)
        categories.append(category)
    return pa.table([pa.array(asins, pa.string()), pa.array(categories, ITEM[1].type)], schema=ITEM), bad
