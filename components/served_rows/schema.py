"""The table of served rows, and the layout of its files: FOLDER/YYYY-MM-DD/HH-<writer>-<sequence>.parquet, in UTC.

A row is one scored row of a request, or one item of a list. Several writers fill one folder: each names its files by an
id of its own, and a file is there only when it is complete.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

# Column: its type and meaning.
SCHEMA = pa.schema(
    [
        # The request's id, of a header or made; of batch predictions the id of the call.
        pa.field("request_id", pa.string(), nullable=False),
        # Row of the request, from 0; the items of a list share the row of their user.
        pa.field("row", pa.int32(), nullable=False),
        # When it was answered.
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        # Registered name, or folder, and version; the version of a folder is empty.
        pa.field("model", pa.string(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        # Free, such as champion, canary or batch.
        pa.field("variant", pa.string(), nullable=False),
        # Object of JSON: the raw columns that the model reads, as they came; null for items of lists.
        pa.field("columns", pa.string()),
        # Of the label 1; null for items of lists, and for models without a probability.
        pa.field("probability", pa.float64()),
        # Of a scored row, the user and the candidate if the model reads them; else null.
        pa.field("user", pa.string()),
        # Place in a list, from 1; null for scored rows.
        pa.field("rank", pa.int32()),
        pa.field("item", pa.string()),
        # What the list is ordered by; null for scored rows.
        pa.field("likelihood", pa.float64()),
    ]
)


def file_of(hour: datetime, writer: str, sequence: int) -> str:
    """The name of a file below the folder.

    Args:
        hour: of its rows, in UTC.
        writer: an id without "-" that no other writer of the folder has.
        sequence: counts the writer's files.
    """
    return f"{hour:%Y-%m-%d/%H}-{writer}-{sequence:06d}.parquet"
