"""Reading records that TensorFlow itself wrote."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import Chunk, Feature, FeatureSpec
from components.records import Records
from components.records.framing import index_path, masked_crc32c, scan_frames
from components.records.lanes import lanes_of, needed_files, shares

FEATURES = {
    "label": Feature("label", "bool"),
    "uid": Feature("uid", "int64", 70_000),
    "item_pos": Feature("item_pos", "int64", 1_200_000, 7),
    "cat_pos": Feature("cat_pos", "int64", 90, 7),
}


def random_samples(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    shapes = {name: (rows,) if f.length is None else (rows, f.length) for name, f in FEATURES.items()}
    limits = {name: f.cardinality or 1 for name, f in FEATURES.items()}
    # Powers make ids of every varint length.
    return {n: ((limits[n] + 1) * rng.random(shapes[n]) ** 4).astype(np.int64) for n in FEATURES}


def write(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    """Writes one Example a record with TensorFlow; lists of int become int64 lists."""
    import tensorflow as tf

    def feature(given: object) -> tf.train.Feature:
        values = np.atleast_1d(np.asarray(given))
        if values.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            example = tf.train.Example(
                features=tf.train.Features(feature={name: feature(values) for name, values in record.items()})
            )
            writer.write(example.SerializeToString())


def rows_of(samples: dict[str, np.ndarray]) -> list[dict[str, object]]:
    return [{name: values[i] for name, values in samples.items()} for i in range(len(samples["label"]))]


def spec_of(folder: Path, *files: str, **metadata: object) -> FeatureSpec:
    channels = {"label": ("label",)}
    return FeatureSpec(FEATURES, {"train": Chunk(tuple(FEATURES), files)}, channels, {"train": metadata}, folder)


@pytest.fixture
def dataset(tmp_path: Path) -> tuple[FeatureSpec, dict[str, np.ndarray]]:
    """1,000 plain samples in two files, without index or metadata."""
    samples = random_samples(1000)
    records = rows_of(samples)
    write(tmp_path / "train" / "a.tfrecord", records[:600])
    write(tmp_path / "train" / "b.tfrecord", records[600:])
    return spec_of(tmp_path, "train/a.tfrecord", "train/b.tfrecord"), samples


@pytest.fixture
def records(dataset: tuple[FeatureSpec, dict[str, np.ndarray]]) -> Records:
    return Records(dataset[0], "train")


def joined(batches: list[dict[str, np.ndarray]], name: str) -> np.ndarray:
    return np.concatenate([batch[name] for batch in batches])


def test_records_without_metadata_are_read_in_file_order(dataset: tuple[FeatureSpec, dict[str, np.ndarray]]) -> None:
    spec, samples = dataset
    batches = list(Records(spec, "train").batches(300))
    assert [len(batch["label"]) for batch in batches] == [300, 300, 300, 100]
    for name, values in samples.items():
        np.testing.assert_array_equal(joined(batches, name), values)


def test_only_the_features_asked_for_are_decoded(dataset: tuple[FeatureSpec, dict[str, np.ndarray]]) -> None:
    spec, samples = dataset
    batch = next(Records(spec, "train", ["cat_pos"]).batches(10))
    assert list(batch) == ["cat_pos"]
    np.testing.assert_array_equal(batch["cat_pos"], samples["cat_pos"][:10])


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_global_batches_do_not_depend_on_the_number_of_ranks(records: Records, size: int) -> None:
    alone = list(records.batches(128, seed=5, epoch=2))
    ranks = [list(records.batches(128, rank=rank, size=size, seed=5, epoch=2)) for rank in range(size)]
    for step, whole in enumerate(alone):
        np.testing.assert_array_equal(joined([share[step] for share in ranks], "item_pos"), whole["item_pos"])


@pytest.mark.parametrize("batch_size", [128, 96, 90, 77, 1000, 5000])
def test_every_sample_comes_once_an_epoch(dataset: tuple[FeatureSpec, dict[str, np.ndarray]], batch_size: int) -> None:
    records = Records(dataset[0], "train", ["item_pos"])
    batches = list(records.batches(batch_size, seed=3))
    assert [len(batch["item_pos"]) for batch in batches] == [
        min(batch_size, 1000 - first) for first in range(0, 1000, batch_size)
    ]
    seen = np.sort(joined(batches, "item_pos"), axis=0)
    np.testing.assert_array_equal(seen, np.sort(dataset[1]["item_pos"], axis=0))


@pytest.mark.parametrize("prebatch", [0, 32])
def test_a_node_needs_only_the_files_of_its_lanes(tmp_path: Path, prebatch: int) -> None:
    samples = random_samples(800)
    step = prebatch or 1
    for number in range(4):
        part = {name: values[number * 200 : number * 200 + 200] for name, values in samples.items()}
        records = [{name: v[i : i + step].ravel() for name, v in part.items()} for i in range(0, 200, step)]
        write(tmp_path / f"{number}.tfrecord", records)
    spec = spec_of(
        tmp_path, *(f"{number}.tfrecord" for number in range(4)), rows_per_file=[200] * 4, prebatch_size=prebatch
    )
    whole = list(Records(spec, "train", ["item_pos"]).batches(64, seed=1, epoch=1))
    for rank, files in ((0, {0, 1}), (1, {2, 3})):
        assert needed_files([200] * 4, 64, [rank], 2) == files
        away = tmp_path / "away"
        away.mkdir(exist_ok=True)
        for number in set(range(4)) - files:
            (tmp_path / f"{number}.tfrecord").rename(away / f"{number}.tfrecord")
        own = list(Records(spec, "train", ["item_pos"], files=files).batches(64, rank=rank, size=2, seed=1, epoch=1))
        for number in set(range(4)) - files:
            (away / f"{number}.tfrecord").rename(tmp_path / f"{number}.tfrecord")
        for share, batch in zip(own, whole, strict=True):
            half = len(batch["item_pos"]) // 2
            expected = batch["item_pos"][:half] if rank == 0 else batch["item_pos"][half:]
            np.testing.assert_array_equal(share["item_pos"], expected)


@pytest.mark.parametrize("rows", [1, 7, 63, 64, 65, 1000, 1023, 4099])
@pytest.mark.parametrize("batch", [1, 6, 24, 64, 100])
def test_ranks_share_every_sample_of_every_lane(rows: int, batch: int) -> None:
    for size in (1, 2, 3, 5):
        parts = [share for rank in range(size) for share in shares(rows, batch, rank, size, lanes_of(batch))]
        steps = -(-rows // batch)
        taken = sum(end - begin for part in parts for begin, end in map(part.rows, range(steps)))
        assert taken == rows
        for step in range(rows // batch):
            assert sum(end - begin for begin, end in (part.rows(step) for part in parts)) == batch


def test_a_remainder_is_split_as_evenly_as_possible(records: Records) -> None:
    last = [list(records.batches(333, rank=rank, size=3))[-1] for rank in range(3)]
    assert sorted(len(batch["label"]) for batch in last) == [0, 0, 1]
    assert last[0]["item_pos"].shape[1] == 7


def test_an_epoch_resumes_at_any_step(records: Records) -> None:
    whole = list(records.batches(64, seed=1, epoch=3))
    rest = list(records.batches(64, seed=1, epoch=3, first_step=9))
    assert len(rest) == len(whole) - 9
    np.testing.assert_array_equal(joined(rest, "item_pos"), joined(whole[9:], "item_pos"))


def test_each_epoch_has_its_own_order_of_the_same_samples(records: Records) -> None:
    first, second = (joined(list(records.batches(100, seed=1, epoch=epoch)), "uid") for epoch in (0, 1))
    assert (first != second).any()
    np.testing.assert_array_equal(np.sort(first), np.sort(second))


def test_a_remainder_can_be_dropped(records: Records) -> None:
    assert records.steps(300) == 4
    assert records.steps(300, drop_remainder=True) == 3 == len(list(records.batches(300, drop_remainder=True)))


def test_a_cache_of_any_size_changes_nothing(dataset: tuple[FeatureSpec, dict[str, np.ndarray]]) -> None:
    spec, _ = dataset
    plain = joined(list(Records(spec, "train").batches(90, seed=1)), "item_pos")
    for cache_bytes in (20_000, 1 << 30):
        records = Records(spec, "train", cache_bytes=cache_bytes)
        for _ in range(2):
            np.testing.assert_array_equal(joined(list(records.batches(90, seed=1)), "item_pos"), plain)


@pytest.mark.parametrize("batch_size", [64, 100, 250])
def test_prebatched_records_without_metadata_are_told_by_their_values(tmp_path: Path, batch_size: int) -> None:
    samples = random_samples(430)
    records = [{name: values[i : i + 100].ravel() for name, values in samples.items()} for i in range(0, 430, 100)]
    write(tmp_path / "a.tfrecord", records)
    reader = Records(spec_of(tmp_path, "a.tfrecord"), "train")
    assert reader.rows == 430
    batches = list(reader.batches(batch_size))
    for name, values in samples.items():
        np.testing.assert_array_equal(joined(batches, name), values)


def test_ragged_histories_are_padded_on_the_left(tmp_path: Path) -> None:
    samples = rows_of(random_samples(3))
    samples[0]["item_pos"] = [5, 1_000_000, 300]
    samples[1]["item_pos"] = np.zeros(0, np.int64)
    write(tmp_path / "a.tfrecord", samples)
    batch = next(Records(spec_of(tmp_path, "a.tfrecord"), "train").batches(2))
    assert batch["item_pos"].tolist() == [[0, 0, 0, 0, 5, 1_000_000, 300], [0] * 7]


@pytest.mark.parametrize(
    ("record", "changed", "told"),
    [
        (7, {"cat_pos": [1, 91, 3, 92]}, "feature cat_pos has 2 ids above the cardinality 90"),
        (2, {"uid": 2**40}, "feature uid has 1 id above the cardinality 70000"),
        (2, {"uid": -3}, "feature uid has 1 value below 0"),
        (2, {"label": 2}, "feature label has 1 value above 1, the first is 2"),
        (4, {"item_pos": [1] * 8}, "feature item_pos has more than 7 values"),
        (4, {"uid": [0.5]}, "feature uid is not an int64 list"),
        (3, {"item_pos": None}, "has no feature item_pos"),
    ],
)
def test_a_record_that_breaks_the_specification_is_named(
    tmp_path: Path, record: int, changed: dict[str, object], told: str
) -> None:
    samples = rows_of(random_samples(9))
    samples[record] = {name: value for name, value in (samples[record] | changed).items() if value is not None}
    write(tmp_path / "a.tfrecord", samples)
    with pytest.raises(KfrecError, match=f"a.tfrecord: record {record}: {told}"):
        list(Records(spec_of(tmp_path, "a.tfrecord"), "train").batches(4))


def test_histories_of_unequal_length_are_refused_and_other_lists_are_not(tmp_path: Path) -> None:
    sample = {"label": 1, "uid": 3, "item_pos": [5, 6, 7], "cat_pos": [2, 2, 4]}
    write(tmp_path / "a.tfrecord", [sample, {**sample, "cat_pos": [4]}])
    lists = spec_of(tmp_path, "a.tfrecord")
    assert next(Records(lists, "train").batches(2))["cat_pos"].tolist() == [[0, 0, 0, 0, 2, 2, 4], [0] * 6 + [4]]
    history = replace(lists, channels={**lists.channels, "positive_history": ("item_pos", "cat_pos")})
    with pytest.raises(KfrecError, match=r"record 1: feature cat_pos has another number of values \(1\) than item_pos"):
        next(Records(history, "train").batches(2))
    assert next(Records(history, "train", ["cat_pos"]).batches(2))["cat_pos"][1].tolist() == [0] * 6 + [4]


def test_a_flipped_bit_is_a_checksum_error(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(9)))
    spec = spec_of(tmp_path, "a.tfrecord", rows_per_file=[9], prebatch_size=0)
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[-10] ^= 4
    (tmp_path / "a.tfrecord").write_bytes(data)
    with pytest.raises(KfrecError, match=r"a.tfrecord: record 8: checksum does not match"):
        list(Records(spec, "train").batches(4))


@pytest.mark.parametrize("cut", [3, 20])
def test_a_truncated_file_is_named(tmp_path: Path, cut: int) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(9)))
    data = (tmp_path / "a.tfrecord").read_bytes()
    (tmp_path / "a.tfrecord").write_bytes(data[:-cut])
    with pytest.raises(KfrecError, match=r"a.tfrecord: truncated: record 8 begins at byte"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


def test_a_file_that_is_no_record_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"label,uid,item\n" * 20)
    with pytest.raises(KfrecError, match=r"a.tfrecord: record 0: no TFRecord frame at byte 0"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"a.tfrecord: missing"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


def test_row_counts_that_disagree_with_the_file_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(9)))
    with pytest.raises(KfrecError, match=r"a.tfrecord: holds 9 records, feature_spec.yaml says 12"):
        Records(spec_of(tmp_path, "a.tfrecord", rows_per_file=[12], prebatch_size=0), "train")


def test_a_file_that_the_manifest_does_not_list_is_no_record_file(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(5)))
    (tmp_path / "feature_spec.yaml").write_text("")
    adopt(tmp_path)
    shutil.copyfile(tmp_path / "a.tfrecord", tmp_path / "b.tfrecord")
    assert Records(spec_of(tmp_path, "a.tfrecord"), "train").rows == 5
    with pytest.raises(KfrecError, match=r"b\.tfrecord: not listed in _manifest\.json"):
        Records(spec_of(tmp_path, "a.tfrecord", "b.tfrecord"), "train")


def test_an_index_that_the_manifest_does_not_list_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(5)))
    adopt(tmp_path)
    with index_path(tmp_path / "a.tfrecord").open("wb") as file:
        np.save(file, scan_frames(tmp_path / "a.tfrecord"))
    with pytest.raises(KfrecError, match=r"not listed in _manifest\.json"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


@pytest.mark.parametrize("length", [2**63 - 1, 2**63 - 16, 2**62, 2**64 - 1], ids=hex)
def test_a_frame_whose_length_overflows_is_damage(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.tfrecord"
    write(path, rows_of(random_samples(2)))
    header = np.zeros(12 + 64, np.uint8)
    header[:8] = np.frombuffer(np.uint64(length).tobytes(), np.uint8)
    header[8:12] = np.frombuffer(np.uint32(masked_crc32c(header, 0, 8) & 0xFFFFFFFF).tobytes(), np.uint8)
    path.write_bytes(path.read_bytes() + header[:12].tobytes() + bytes(100))
    with pytest.raises(KfrecError, match=r"a\.tfrecord: (truncated: )?record 2"):
        scan_frames(path)


@pytest.mark.parametrize(
    "middle", [(2**63 - 10, -(2**62)), (-16,), (2**62,), (-(2**63),)], ids=lambda middle: " ".join(map(hex, middle))
)
def test_an_index_that_leaves_the_file_is_refused(tmp_path: Path, middle: tuple[int, ...]) -> None:
    path = tmp_path / "a.tfrecord"
    write(path, rows_of(random_samples(len(middle) + 1)))
    with index_path(path).open("wb") as file:
        np.save(file, np.array([0, *middle, path.stat().st_size], np.int64))
    with pytest.raises(KfrecError, match=r"bytes do not match a\.tfrecord\.index"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


def test_records_that_gzip_compressed_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(5)))
    (tmp_path / "a.tfrecord").write_bytes(gzip.compress((tmp_path / "a.tfrecord").read_bytes()))
    with pytest.raises(KfrecError, match=r"a\.tfrecord: is compressed by gzip; decompress it"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


def test_an_archive_of_arrays_is_no_index(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows_of(random_samples(5)))
    with index_path(tmp_path / "a.tfrecord").open("wb") as file:
        np.savez(file, offsets=scan_frames(tmp_path / "a.tfrecord"))
    with pytest.raises(KfrecError, match="not an index; delete it"):
        Records(spec_of(tmp_path, "a.tfrecord"), "train")


def test_an_unknown_feature_is_named(dataset: tuple[FeatureSpec, dict[str, np.ndarray]]) -> None:
    with pytest.raises(KfrecError, match="split train has no feature price; it has label, uid"):
        Records(dataset[0], "train", ["price"])


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_an_error_that_names_the_file(tmp_path: Path, seed: int) -> None:
    """Checksums guard every byte, and the index is not trusted either."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "a.tfrecord"
    write(path, rows_of(random_samples(9)))
    spec = spec_of(tmp_path, "a.tfrecord", rows_per_file=[9], prebatch_size=0)
    offsets = scan_frames(path)
    if seed % 2:
        offsets[rng.integers(0, 9)] += rng.integers(-3000, 3000)
    else:
        data = bytearray(path.read_bytes())
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
    with index_path(path).open("wb") as file:
        np.save(file, offsets)
    with pytest.raises(KfrecError, match=r"a\.tfrecord"):
        list(Records(spec, "train").batches(4))


def test_names_and_lists_of_any_size_are_read(tmp_path: Path) -> None:
    """An entry's lengths take one byte or two, as its name and its values are long."""
    rng = np.random.default_rng(1)
    sizes = [(name, values) for name in (1, 5, 6, 22, 23, 60, 117, 118, 119, 130) for values in (0, 1, 9, 33)]
    features = {
        f"{kind}{values:02}".ljust(name + 3, "x"): Feature(
            f"{kind}{values:02}".ljust(name + 3, "x"), "int64" if kind == "i" else "float32", None, values or None
        )
        for name, values in sizes
        for kind in "if"
    }
    rows = [
        {
            name: rng.random(f.length or 1).astype(np.float32)
            if f.is_float
            else rng.integers(0, 1 << 31, f.length or 1) >> rng.integers(31)
            for name, f in features.items()
        }
        for _ in range(7)
    ]
    write(tmp_path / "a.tfrecord", rows)
    spec = FeatureSpec(features, {"train": Chunk(tuple(features), ("a.tfrecord",))}, {}, {"train": {}}, tmp_path)
    batch = next(Records(spec, "train").batches(7))
    for name in features:
        np.testing.assert_array_equal(batch[name].reshape(7, -1), [row[name] for row in rows])


@pytest.mark.slow
def test_a_changed_record_is_refused_or_read_as_protobuf_reads_it(tmp_path: Path) -> None:
    """Every value is checked even where a checksum is right: one changed byte, 2,000 times."""
    import tensorflow as tf

    rng = np.random.default_rng(2)
    path = tmp_path / "a.tfrecord"
    write(path, rows_of(random_samples(1)))
    (record,) = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    read = 0
    for _ in range(2000):
        changed = bytearray(record)
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(bytes(changed))
        index_path(path).unlink(missing_ok=True)
        try:
            batch = next(
                Records(spec_of(tmp_path, "a.tfrecord", rows_per_file=[1], prebatch_size=0), "train").batches(1)
            )
        except KfrecError:
            continue
        given = tf.train.Example.FromString(bytes(changed)).features.feature
        for name, feature in FEATURES.items():
            values = list(given[name].int64_list.value)
            assert batch[name].ravel().tolist() == [0] * ((feature.length or 1) - len(values)) + values
        read += 1
    assert 0 < read < 2000
