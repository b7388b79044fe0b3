"""What a notice says of a run on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from components.notices import Notice
from pipelines.runs.record import RunRecord
from pipelines.summary import published, warnings_of


def notice_of(record: RunRecord, step: str, log: Sequence[str]) -> Notice:
    """The notice of a run that has ended.

    Args:
        step: that failed; empty if none did.
        log: lines of its log.
    """
    summary = record.summary()
    return Notice(
        record.name,
        f"{record.pipeline.kind} of {record.pipeline.model}",
        record.state,
        record.message,
        step,
        log,
        published(summary),
        summary.get("metrics", {}),
        [warning["message"] for warning in warnings_of(record.steps)],
        str(record.folder),
    )
