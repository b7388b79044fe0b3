"""The data set trips: trips_*.csv, each line a zone, stops on the way, a distance, and the minutes that it took."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.datasets import DatasetDefinition, PreprocessJob, RawContract, RawKind
from components.datasets.raw_rows import TEXTS, VALUE, Encoded, RawColumn, listed
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.parameters import param

if TYPE_CHECKING:
    import pyarrow as pa

ZONES, STOPS, MOST_STOPS = 30, 8, 3
TRIPS = RawKind("trips", r"trips_.+\.csv", "trips_*.csv", "trips")


@dataclass(frozen=True)
class Generation:
    """Of the synthetic trips."""

    synthetic_trips: int = param(4000, "Trips of the synthetic data set", unit="trips", at_least=10)


@dataclass(frozen=True)
class Sampling:
    """How trips become samples."""

    test_share: float = param(0.2, "Share of the trips that are held out", at_least=0.01, at_most=0.9)


def _generate(parameters: Generation, folder: Path) -> None:
    """A trip takes as long as its zone, the stop 3 and its distance say, and some noise."""
    random = np.random.default_rng(12345)
    lines = []
    for _ in range(parameters.synthetic_trips):
        zone, distance = int(random.integers(1, ZONES + 1)), float(random.uniform(0, 2))
        stops = random.choice(np.arange(1, STOPS + 1), int(random.integers(0, MOST_STOPS + 1)), replace=False).tolist()
        minutes = 2 + zone % 3 + 2.0 * (3 in stops) + 2.0 * distance + random.normal(0, 0.5)
        lines.append(f"{zone},{' '.join(map(str, stops))},{distance:.4f},{minutes:.2f}\n")
    (folder / "trips_synthetic.csv").write_text("".join(lines))


def _preprocess(job: PreprocessJob) -> Mapping[str, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = TRIPS.files(job.raw)
    rows = []
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                zone, stops, distance, minutes = line.split(",")
                rows.append((float(minutes), int(zone), [int(stop) for stop in stops.split()], float(distance)))
            except ValueError:
                raise KfrecError(f"{path}: line {number} is not zone,stops,distance,minutes; correct it") from None
    order = np.random.default_rng(job.parameters.seed).permutation(len(rows))
    held_out = int(len(rows) * job.parameters.test_share)
    counts = {}
    for split, chosen in (("test", order[:held_out]), ("train", order[held_out:])):
        minutes, zone, stops, distance = zip(*(rows[index] for index in chosen), strict=True)
        table = pa.table({
            "minutes": pa.array(minutes, pa.float32()),
            "zone": pa.array(zone, pa.int32()),
            "stops": pa.array(stops, pa.list_(pa.int32())),
            "distance": pa.array(distance, pa.float32()),
        })  # fmt: skip
        (job.folder / split).mkdir()
        pq.write_table(table, job.folder / split / "part.0.parquet")
        counts[split] = len(chosen)
    features = [
        Feature("minutes", "float32"),
        Feature("zone", "int64", ZONES),
        Feature("stops", "int64", STOPS, MOST_STOPS),
        Feature("distance", "float32"),
    ]
    channels = {Channel.LABEL: ("minutes",), "zone": ("zone",), "stops": ("stops",), "numbers": ("distance",)}
    encoding = {"encoding": {"dataset": DATASET.name}}  # names the encoder of raw rows
    spec = FeatureSpec({feature.name: feature for feature in features}, {}, channels, encoding)
    (job.folder / "feature_spec.yaml").write_text(spec.to_yaml())
    return counts


class TripRows:
    """Encodes trips without their minutes; zones and stops above the largest are unknown."""

    columns = (
        RawColumn("zone", VALUE, "Where the trip begins"),
        RawColumn("stops", TEXTS, "Stops on the way"),
        RawColumn("distance", VALUE, "Kilometres"),
    )

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        zone, distance = (np.array(_numbers(rows[name], name)) for name in ("zone", "distance"))
        stops = np.zeros((len(zone), MOST_STOPS), np.int64)
        for row, values in enumerate(rows["stops"].to_pylist()):
            found = [int(stop or 0) for stop in listed(values)][-MOST_STOPS:]
            stops[row, MOST_STOPS - len(found) :] = found
        features = {
            "zone": np.where(zone <= ZONES, zone, 0).astype(np.int64),
            "stops": np.where(stops <= STOPS, stops, 0),
        }
        unknown = {"zone": (zone > ZONES).astype(np.int32), "stops": (stops > STOPS).sum(1)}
        return Encoded({**features, "distance": distance.astype(np.float32)}, unknown)

    def example(self) -> dict[str, list[Any]]:
        return {"zone": [1, 2], "stops": [["3"], []], "distance": [0.5, 1.5]}


def _numbers(column: pa.Array, name: str) -> list[float]:
    try:
        return [float(value) for value in column.to_pylist()]
    except (TypeError, ValueError):
        raise KfrecError(f"column {name} has values that are not numbers; correct them") from None


def _raw_rows(spec: FeatureSpec, inputs: Collection[str]) -> TripRows:
    return TripRows()


DATASET = DatasetDefinition(
    name="trips",
    summary="Trips, and how many minutes they took.",
    raw=RawContract((TRIPS,)),
    generation=Generation,
    generate=_generate,
    sampling=Sampling,
    preprocess=_preprocess,
    raw_rows=_raw_rows,
)
