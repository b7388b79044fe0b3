"""From raw files to samples, in two passes over partitions of displays.

The first pass joins and counts, the second makes features. NVTabular takes two seconds to import, so modules that need
it are imported in functions, after reading has begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from components.checks.profile import CATEGORY
from components.checks.profile import TIME as TIMES
from components.checks.tables import Profiled
from components.datasets.definition import PreprocessJob
from components.datasets.outbrain.displays import CLICK, EVENT, REASONS, click_table, event_table
from components.datasets.outbrain.division import Division, display_keys
from components.datasets.outbrain.documents import term_table, write_documents
from components.datasets.outbrain.lines import LineParser, schema_of
from components.datasets.outbrain.raw_files import ADS, CLICKS, EPOCH, EVENTS, FIELDS, META, TERMS, find_raw_files
from components.datasets.outbrain.statistics import read_fitted
from components.errors import KfrecError
from components.feature_spec.spec import FILENAME, LARGEST_ID
from components.progress import warn
from components.workflows.key_runs import KeyRuns
from components.workflows.startup import import_ahead, start_fork_server_early
from components.workflows.text_blocks import RawReader

if TYPE_CHECKING:
    from components.checks.tables import TableProfiler
    from components.datasets.outbrain.displays import Joined
    from components.datasets.outbrain.statistics import Fitted

# The profiled columns of each raw file, and its key for duplicates.
_PROFILED = {
    CLICKS: (
        (Profiled("display_id", CATEGORY), Profiled("ad_id", CATEGORY, counted=True), Profiled("clicked", CATEGORY)),
        ("display_id", "ad_id"),
    ),
    EVENTS: (
        (
            Profiled("document_id", CATEGORY, counted=True),
            Profiled("timestamp", TIMES, unit=1e-3, epoch=EPOCH / 1e3),
            Profiled("platform", CATEGORY),
            Profiled("geo_location", CATEGORY),
        ),
        ("display_id",),
    ),
    ADS: (
        (Profiled("campaign_id", CATEGORY, counted=True), Profiled("advertiser_id", CATEGORY, counted=True)),
        ("ad_id",),
    ),
    META: ((Profiled("source_id", CATEGORY), Profiled("publisher_id", CATEGORY)), ("document_id",)),
}


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of both splits; returns counts of samples, displays, and displays and lines dropped."""
    parameters, scratch = job.parameters, job.scratch
    division = Division(parameters.seed, parameters.last_training_day, parameters.test_share, parameters.rate_folds)
    files = find_raw_files(job.raw)
    earlier = _earlier(parameters.workflow, division, scratch / "given")
    reader = RawReader(job.folder / "quarantine", parameters.malformed_limit, parameters.longest_line)
    import_ahead("components.datasets.outbrain.pipeline")
    with (
        KeyRuns(scratch, "click_key", CLICK, display_keys) as clicks,
        KeyRuns(scratch, "event_key", EVENT, display_keys) as events,
    ):
        for lines in _lines(reader, files[CLICKS], CLICKS, _profiler(job, CLICKS)):
            _require_small(lines, files[CLICKS])
            clicks.add(click_table(lines))
            if clicks.rows / reader.share > parameters.clicks_per_partition:
                start_fork_server_early(parameters.workers, job.scheduler)
        for lines in _lines(reader, files[EVENTS], EVENTS, _profiler(job, EVENTS)):
            events.add(event_table(lines))
        if not clicks.rows:
            raise KfrecError(f"{files[CLICKS]}: no clicks in it; check what download fetched")
        _read_documents(job, reader, files, scratch / "documents")
        job.profiler.judge()
        click_parts = clicks.partitions_of(parameters.clicks_per_partition)
        event_parts = events.partitions(len(click_parts))

        from components.datasets.outbrain import pipeline
        from components.datasets.outbrain.features import specification
        from components.workflows.workers import dask_workers

        with dask_workers(parameters.workers, job.scheduler, len(click_parts)) as workers:
            joined, statistics = pipeline.join(workers, click_parts, event_parts, scratch, division)
            displays, left_out = _judge(joined, files[CLICKS], parameters.malformed_limit, job.folder / "quarantine")
            train, test = (sum(getattr(part, split) for part in joined) for split in ("train", "test"))
            _require_samples(train, test, [part.days for part in joined if part.days], files[EVENTS], parameters)
            fitted, encoding = pipeline.fit_or_keep(statistics, division, earlier, parameters.out_of_vocabulary_limit)
            pipeline.write(workers, joined, fitted, scratch, job.output, parameters.largest_buckets)
    encoding["dataset"] = "outbrain"
    encoding["raw_rows"] = job.raw.rows.get("clicks", clicks.rows)
    (job.folder / FILENAME).write_text(specification(parameters.largest_buckets, encoding).to_yaml())
    return {
        "train": train,
        "test": test,
        "displays": displays,
        "malformed_displays": left_out,
        "malformed_lines": reader.malformed_lines,
    }


def _earlier(location: str, division: Division, scratch: Path) -> Fitted | None:
    """The statistics to reuse, if any; opened before the long work, so that errors show early.

    Raises:
        KfrecError: there are none, or they were fitted on displays that are test samples here.
    """
    if not location:
        return None
    fitted = read_fitted(location, scratch)
    theirs = fitted.division
    for name in ("seed", "test_share", "folds"):
        ours, kept = getattr(division, name), getattr(theirs, name)
        if ours != kept:
            name = "rate_folds" if name == "folds" else name
            raise KfrecError(
                f"parameter {name}={ours} differs from {name}={kept} of the statistics in {location}, so that samples "
                "would see their own clicks; use the same value, or leave workflow empty to fit new statistics"
            )
    if division.last_training_day < theirs.last_training_day:
        raise KfrecError(
            f"parameter last_training_day={division.last_training_day} is below {theirs.last_training_day}, up to "
            f"which the statistics in {location} were fitted, so that test samples would see their own clicks; raise "
            "it, or leave workflow empty to fit new statistics"
        )
    return fitted


def _profiler(job: PreprocessJob, kind: str) -> TableProfiler | None:
    """The profiler of a raw file's lines; None for terms of documents."""
    return job.profiler.table(kind, *_PROFILED[kind]) if kind in _PROFILED else None


def _lines(reader: RawReader, path: Path, kind: str, profiler: TableProfiler | None) -> Iterator[pa.Table]:
    """The lines of a raw file, block by block."""
    parser = LineParser(path, FIELDS[kind])
    yield from reader.tables([path], parser, f"lines of {kind}", f"reading {kind}", profiler)
    parser.require_header()


def _require_small(lines: pa.Table, path: Path) -> None:
    """Raises KfrecError for a display id above int32, the dtype in records."""
    largest = pc.max(lines["display_id"]).as_py() or 0
    if largest > LARGEST_ID:
        raise KfrecError(
            f"{path}: display_id {largest} is above {LARGEST_ID}, the largest that records hold; renumber the displays "
            "here and in events"
        )


def _read_documents(job: PreprocessJob, reader: RawReader, files: Mapping[str, Path], folder: Path) -> None:
    from components.datasets.outbrain.features import LIST_BUCKETS, bucket_numbers

    def complete(kind: str) -> pa.Table:
        schema = schema_of(FIELDS[kind])
        lines = _lines(reader, files[kind], kind, _profiler(job, kind))
        return pa.concat_tables([schema.empty_table(), *lines]).combine_chunks()

    meta, ads = complete(META), complete(ADS)
    terms = {
        kind: term_table(_lines(reader, files[file], file, None), FIELDS[file][1].name) for kind, file in TERMS.items()
    }
    write_documents(folder, meta, ads, terms, bucket_numbers(LIST_BUCKETS, job.parameters.largest_buckets))


def _judge(joined: Sequence[Joined], clicks: Path, limit: float, quarantine: Path) -> tuple[int, int]:
    """The number of displays, and of those dropped, which ``quarantine/displays.csv`` lists.

    Raises:
        KfrecError: their share is above the limit.
    """
    displays = sum(part.displays for part in joined)
    left_out = [(display, REASONS[reason]) for part in joined for display, reason in part.left_out.tolist()]
    if left_out:
        quarantine.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{display},{reason}\n" for display, reason in sorted(left_out))
        (quarantine / "displays.csv").write_text(f"display_id,reason\n{lines}")
        display, reason = min(left_out)
        summary = f"{clicks}: {len(left_out)} of {displays} displays do not have one event and one click"
        if len(left_out) > limit * displays:
            raise KfrecError(
                f"{summary}, the first is display {display} ({reason}); correct the files, or raise malformed_limit "
                f"({limit:g}) to leave them out"
            )
        warn("preprocess", "displays left out", f"{summary}; they are left out, see quarantine/displays.csv")
    if unknown := sum(part.unknown_ads for part in joined):
        what = f"{unknown} clicks are of ads that {ADS} does not describe; their features are 0"
        warn("preprocess", "unknown ads", what)
    return displays, len(left_out)


def _require_samples(train: int, test: int, days: Sequence[range], events: Path, parameters: Any) -> None:
    """Requires samples in both splits, and warns if no day is held out.

    Args:
        events: the file of the timestamps, for messages.

    Raises:
        KfrecError: a split is empty.
    """
    day, share = parameters.last_training_day, parameters.test_share
    last = max((part[-1] for part in days), default=-1)
    seen = (
        f"the displays are of the days {min(part[0] for part in days)} to {last}, where a timestamp counts "
        "milliseconds since 2016-06-14 04:00 UTC"
        if days
        else "no display is left"
    )
    if not train:
        raise KfrecError(
            f"{events}: no training samples: no display up to last_training_day={day} is left beside "
            f"test_share={share:g} ({seen}); correct the timestamps, raise last_training_day or lower test_share"
        )
    if not test:
        raise KfrecError(
            f"{events}: no test samples: no display is later than last_training_day={day}, or drawn with "
            f"test_share={share:g} ({seen}); lower last_training_day or raise test_share"
        )
    if last <= day:
        warn(
            "preprocess",
            "no test days",
            f"{events}: no display is later than last_training_day={day}, so all test samples are of training days "
            f"({seen}); correct the timestamps, or lower last_training_day",
        )
