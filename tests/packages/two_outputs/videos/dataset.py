"""The data set videos: videos_*.csv, each line a user, a video, a click, and the seconds of each third of the video."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.datasets import DatasetDefinition, PreprocessJob, RawContract, RawKind
from components.datasets.raw_rows import VALUE, Encoded, RawColumn
from components.feature_spec import Channel, Feature, FeatureSpec
from components.parameters import param

if TYPE_CHECKING:
    import pyarrow as pa

USERS, VIDEOS, THIRDS = 20, 12, 3
SHOWN = RawKind("videos", r"videos_.+\.csv", "videos_*.csv", "impressions")
COLUMNS = ("user", "video", "clicked", "first", "second", "third")


@dataclass(frozen=True)
class Generation:
    """Of the synthetic impressions."""

    impressions: int = param(3000, "Impressions of the synthetic data set", unit="impressions", at_least=10)


@dataclass(frozen=True)
class Sampling:
    """How impressions become samples."""

    held_out: float = param(0.2, "Share of the impressions that are held out", at_least=0.01, at_most=0.9)


def _generate(parameters: Generation, folder: Path) -> None:
    """Every third video is clicked often; after a click, each third of it is watched for a shorter time."""
    random, rows = np.random.default_rng(12345), parameters.impressions
    user, video = random.integers(1, USERS + 1, rows), random.integers(1, VIDEOS + 1, rows)
    clicked = random.random(rows) < np.where(video % 3 == 0, 0.8, 0.1)
    seconds = clicked[:, None] * np.array([9.0, 6.0, 3.0]) * (1 + video[:, None] % 2) + random.random((rows, THIRDS))
    lines = [f"{u},{v},{int(c)},{','.join(f'{t:.2f}' for t in s)}\n"
             for u, v, c, s in zip(user, video, clicked, seconds, strict=True)]  # fmt: skip
    (folder / "videos_synthetic.csv").write_text("".join(lines))


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    shown = pd.concat([pd.read_csv(path, names=COLUMNS) for path in SHOWN.files(job.raw)])
    shown = shown.sample(frac=1, random_state=job.parameters.seed)
    held_out, counts = int(len(shown) * job.parameters.held_out), {}
    for split, rows in (("test", shown[:held_out]), ("train", shown[held_out:])):
        (job.folder / split).mkdir()
        seconds = rows[["first", "second", "third"]].to_numpy(np.float32)
        table = pa.table({
            "clicked": pa.array(rows["clicked"], pa.int8()),
            "seconds": pa.FixedSizeListArray.from_arrays(pa.array(seconds.reshape(-1)), THIRDS),
            "user": pa.array(rows["user"], pa.int32()),
            "video": pa.array(rows["video"], pa.int32()),
        })  # fmt: skip
        pq.write_table(table, job.folder / split / "part.0.parquet")
        counts[split] = len(rows)
    features = [
        Feature("clicked", "bool"),
        Feature("seconds", "float32", length=THIRDS),
        Feature("user", "int64", USERS),
        Feature("video", "int64", VIDEOS),
    ]
    channels = {Channel.LABEL: ("clicked", "seconds"), Channel.CATEGORICAL: ("user", "video")}
    encoding = {"encoding": {"dataset": DATASET.name}}
    spec = FeatureSpec({feature.name: feature for feature in features}, {}, channels, encoding)
    (job.folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return counts


class Impressions:
    """Encodes impressions."""

    columns = (RawColumn("user", VALUE, "Number of the user"), RawColumn("video", VALUE, "Number of the video"))

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        ids = {name: np.array([int(value) for value in values.to_pylist()]) for name, values in rows.items()}
        known = {"user": ids["user"] <= USERS, "video": ids["video"] <= VIDEOS}
        return Encoded(
            {name: np.where(known[name], values, 0) for name, values in ids.items()},
            {name: (~values).astype(np.int32) for name, values in known.items()},
        )

    def example(self) -> dict[str, list[Any]]:
        return {"user": [1, 2], "video": [3, 4]}


def _raw_rows(spec: FeatureSpec, inputs: Collection[str]) -> Impressions:
    return Impressions()


DATASET = DatasetDefinition(
    name="videos",
    summary="Impressions of videos: clicks and watch times.",
    raw=RawContract((SHOWN,)),
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
    raw_rows=_raw_rows,
)
