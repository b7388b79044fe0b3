"""Raw files to tables, block by block; malformed lines go to the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from components.errors import KfrecError
from components.progress import progress
from components.workflows.quarantine import BadLine, Quarantine
from components.workflows.text_blocks import LONGEST_LINE, Block, blocks

if TYPE_CHECKING:
    from components.checks.tables import TableProfiler

Parse = Callable[[Block], tuple[pa.Table, list[BadLine]]]


@dataclass
class RawReader:
    """Reads raw files.

    Attributes:
        quarantine: folder for the side files of bad lines.
        malformed_limit: largest accepted share of bad lines in a file.
        longest_line: longest accepted line, in MiB.
        malformed_lines: bad lines so far.
        share: fraction of the files' bytes read, from 0 to 1.
    """

    quarantine: Path
    malformed_limit: float
    longest_line: float = LONGEST_LINE
    malformed_lines: int = 0
    share: float = 0.0

    def tables(
        self, files: Sequence[Path], parse: Parse, what: str, label: str, profiler: TableProfiler | None = None
    ) -> Iterator[pa.Table]:
        """Yields the tables of ``parse`` for the blocks of ``files``.

        Args:
            files: raw files, in the order to read them in.
            parse: converts a block to one row per line, and returns the malformed lines.
            what: what a line should be, for messages.
            label: of the progress bar.
            profiler: also takes the tables.

        Raises:
            KfrecError: a damaged gzip file, a file that ends in the middle of a line, or more bad lines in a file than
                the limit allows.
        """
        size, consumed = sum(path.stat().st_size for path in files), 0
        with progress(label, size, "bytes") as bar:
            for path in files:
                refused, lines = Quarantine(path, self.quarantine, self.malformed_limit, what), 0
                try:
                    for block in blocks(path, longest_line=self.longest_line):
                        table, bad = parse(block)
                        refused.add(bad)
                        _require_whole(path, block, bad, refused.first)
                        lines += table.num_rows + len(bad)
                        consumed += block.consumed
                        self.share = consumed / size
                        if profiler is not None:
                            profiler.add(table)
                            profiler.malformed += len(bad)
                        yield table
                        bar.advance(block.consumed)
                finally:
                    refused.close()
                refused.judge(lines)
                self.malformed_lines += refused.count


def _require_whole(path: Path, block: Block, bad: Sequence[BadLine], first: BadLine | None) -> None:
    """Rejects a file whose last line is malformed and has no end: the rest of the file is missing too."""
    if (
        bad
        and first is not None
        and first.number > 1  # else it has another format
        and not block.text.endswith(b"\n")
        and bad[-1].number == block.first_line + block.text.count(b"\n")
    ):
        raise KfrecError(
            f"{path}: ends in the middle of line {bad[-1].number}, {bad[-1].text[:100]!r}; get a complete copy of it"
        )
