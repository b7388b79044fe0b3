"""The newest history of each user, over the splits of records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import Channel, Chunk, Feature, FeatureSpec
from components.inference.history import histories_of

Sample = tuple[int, Sequence[int], int, int]  # user, history, target, label
_LENGTH = 4


def records(folder: Path, **splits: Sequence[Sample]) -> str:
    """Records of users U1 to U4 and items I1 to I9, whose ids are the numbers."""
    import tensorflow as tf

    features = {
        "label": Feature("label", "bool"),
        "uid": Feature("uid", "int64", 4),
        "item_trgt": Feature("item_trgt", "int64", 9),
        "item_pos": Feature("item_pos", "int64", 9, _LENGTH),
    }
    for split, samples in splits.items():
        (folder / split).mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / split / "part_0.tfrecord")) as writer:
            for user, history, target, label in samples:
                newest = list(history)[-_LENGTH:]
                sample = {
                    "label": [label],
                    "uid": [user],
                    "item_trgt": [target],
                    "item_pos": [0] * (_LENGTH - len(newest)) + newest,
                }
                fields = {k: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for k, v in sample.items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString())
    (folder / "vocabulary").mkdir()
    metadata: dict[str, dict[str, object]] = {"vocabulary": {}}
    for name, letter, count, named in (("uid", "U", 4, ["uid"]), ("item", "I", 9, ["item_trgt", "item_pos"])):
        ids = list(range(1, 1 + count))
        table = pa.table({"id": pa.array(ids, pa.int32()), "value": [f"{letter}{each}" for each in ids]})
        pq.write_table(table, folder / "vocabulary" / f"{name}.parquet")
        metadata["vocabulary"][name] = {"file": f"vocabulary/{name}.parquet", "unknown": 0, "features": named}
    channels = {
        Channel.LABEL: ("label",),
        Channel.USER: ("uid",),
        Channel.TARGET: ("item_trgt",),
        Channel.POSITIVE: ("item_pos",),
    }
    sources = {split: Chunk(tuple(features), (f"{split}/part_0.tfrecord",)) for split in splits}
    (folder / "feature_spec.yaml").write_text(FeatureSpec(features, sources, channels, metadata, folder).to_yaml())
    adopt(folder)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return records(
        tmp_path_factory.mktemp("records") / "tfrecord",
        # U1 has two test positives after a cut in time; U2 ends in the validation split; U3 has only training samples.
        train=[(1, [1], 2, 1), (2, [1], 2, 1), (3, [5], 6, 1), (3, [5, 6], 7, 1), (3, [5, 6], 9, 0)],
        validation=[(1, [1, 2], 3, 1), (2, [1, 2], 8, 1), (2, [1, 2], 4, 0)],
        test=[(1, [1, 2, 3, 4, 5], 6, 1), (1, [1, 2, 3, 4, 5], 9, 0), (1, [1, 2, 3, 4], 5, 1), (1, [1, 2, 3, 4], 7, 0)],
    )


def found(users: Sequence[str] | None, data: str) -> dict[str, list[str | None] | None]:
    return {
        user: history
        for users, lists in histories_of(users, data)
        for user, history in zip(users.to_pylist(), lists.to_pylist(), strict=True)
    }


def test_every_user_of_the_records_has_all_his_events_and_the_target_of_the_last_positive(data: str) -> None:
    assert found(None, data) == {
        "U1": ["I2", "I3", "I4", "I5", "I6"],
        "U2": ["I1", "I2", "I8"],
        "U3": ["I5", "I6", "I7"],
    }


def test_named_users_come_in_their_order(data: str) -> None:
    assert list(found(["U3", "U1"], data)) == ["U3", "U1"]
    assert found(["U2"], data) == {"U2": ["I1", "I2", "I8"]}


def test_named_users_who_are_not_among_many_have_no_list(data: str) -> None:
    assert found(["U9", "U3", "U4"], data) == {"U9": None, "U3": ["I5", "I6", "I7"], "U4": None}


@pytest.mark.parametrize(
    ("user", "said"), [("U4", "user U4: no history in"), ("U9", "user U9: not among the 4 users in")]
)
def test_a_user_without_events_is_one_line(user: str, said: str, data: str) -> None:
    with pytest.raises(KfrecError, match=said):
        found([user], data)
