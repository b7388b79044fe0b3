"""The yardsticks compute what kfrec computes; otherwise a ratio to them would say nothing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.measuring import Figure, peak_megabytes
from benchmarks.reference.convert import convert
from benchmarks.reference.load import dataset
from benchmarks.samples import write_samples
from benchmarks.stages.step import our_step, reference_step, tensors
from components.feature_spec import load_feature_spec
from components.records import Records
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_samples(folder / "parquet", 300, 50)
    run(TfrecordParameters(), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    return folder


@pytest.mark.slow
def test_the_reference_reader_reads_what_ours_reads(records: Path) -> None:
    spec = load_feature_spec(records / "tfrecord")
    theirs = next(iter(dataset(spec, "train", 300)))
    ours = next(Records(spec, "train").batches(300))
    assert set(theirs) == set(ours)
    for name, values in ours.items():
        np.testing.assert_array_equal(theirs[name].numpy(), values)


def test_the_reference_converter_writes_the_same_samples(records: Path) -> None:
    files = sorted((records / "parquet" / "train").glob("*.parquet"))
    assert convert(files, records / "reference.tfrecord") == 300
    spec = load_feature_spec(records / "tfrecord")
    ours = next(Records(spec, "train").batches(300))
    raw = next(iter(tf.data.TFRecordDataset(str(records / "reference.tfrecord"))))
    example = tf.train.Example.FromString(raw.numpy())
    history = np.array(example.features.feature["item_sequence"].int64_list.value)
    assert history.shape == (100,)
    assert (ours["item_pos"] == history).all(axis=1).any()


@pytest.mark.slow
def test_the_reference_model_has_the_losses_of_sim() -> None:
    ours = our_step()
    reference = reference_step(ours.model)
    for number in range(3):
        batch = tensors(256, number)
        assert float(ours.run(batch)) == pytest.approx(float(reference(batch)), abs=1e-4)


def test_a_figure_knows_its_ratio_and_whether_its_targets_are_met() -> None:
    fast = Figure("s", "n", "rows/s", [90, 110, 100], [9, 11, 10], target=90, target_ratio=10)
    assert (fast.median, fast.ratio, fast.met) == (100, 10, True)
    assert Figure("s", "n", "rows/s", [100], [10], target=90, target_ratio=11).met is False
    small = Figure("s", "n", "MB", [50], [100], target=60, lower_is_better=True)
    assert (small.ratio, small.met) == (2, True)
    assert Figure("s", "n", "MB", [70], target=60, lower_is_better=True).met is False
    assert Figure("s", "n", "s", [1]).met is None


@pytest.mark.slow
def test_peak_memory_is_that_of_the_process_alone() -> None:
    here = np.ones(50_000_000)
    code = "from benchmarks.measuring import peak_megabytes; print(peak_megabytes())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(child.stdout) < 200 < here.nbytes / 1e6 < peak_megabytes()
