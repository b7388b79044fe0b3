from pathlib import Path

import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import Channel, load_feature_spec

# The layout of the public documentation's example, shortened to one split file each.
EXAMPLE = """
channel_spec:
  label: [label]
  negative_history: [item_id_neg]
  positive_history: [item_id_pos]
  target_item_features: [item_id_trgt]
  user_features: [user_id]
feature_spec:
  item_id_neg: {cardinality: 1209081, dimensions: [100], dtype: int64}
  item_id_pos: {cardinality: 1209081, dimensions: [100], dtype: int64}
  item_id_trgt: {cardinality: 1209081, dtype: int64}
  label: {dtype: bool}
  user_id: {cardinality: 105925, dtype: int64}
metadata: {}
source_spec:
  test:
  - features: &id001 [label, user_id, item_id_trgt, item_id_pos, item_id_neg]
    files: [test.tfrecord]
    type: tfrecord
  train:
  - features: *id001
    files: [train.tfrecord]
    type: tfrecord
"""


def write(folder: Path, text: str) -> Path:
    (folder / "feature_spec.yaml").write_text(text)
    return folder


def test_the_published_layout_is_read(tmp_path: Path) -> None:
    spec = load_feature_spec(write(tmp_path, EXAMPLE))
    assert [feature.name for feature in spec.channel(Channel.POSITIVE)] == ["item_id_pos"]
    assert spec.features["item_id_pos"].length == 100
    assert spec.features["user_id"].cardinality == 105925
    assert spec.files("train") == (tmp_path / "train.tfrecord",)
    assert spec.prebatch_size("train") == 0


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    spec = load_feature_spec(write(tmp_path, EXAMPLE))
    assert load_feature_spec(write(tmp_path, spec.to_yaml())) == spec


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("metadata: {}", "metadata: {", "not YAML"),
        ("metadata: {}", "metadata: 5", "section metadata is 5; make it a mapping, such as {}"),
        ("source_spec:", "sources:", "section source_spec is missing"),
        ("label: [label]", "label: [click]", "channel label names click, which feature_spec does not describe"),
        ("dimensions: [100]", "dimensions: 100", "has dimensions 100; give one length"),
        ("cardinality: 105925", "cardinality: many", "feature user_id has cardinality 'many'"),
        ("cardinality: 105925", "cardinality: 1000000000000", "has cardinality 1000000000000; give its largest id"),
        ("cardinality: 105925", "cardinality: 2147483647", "a whole number below 2147483647, since ids are int32"),
        ("cardinality: 105925", "cardinality: 1.0e+12", "feature user_id has cardinality 1000000000000.0; give"),
        ("cardinality: 105925", "cardinality: 105925.0", "feature user_id has cardinality 105925.0; give"),
        ("cardinality: 105925", "cardinality: true", "feature user_id has cardinality True; give"),
        ("dimensions: [100]", "dimensions: [1.0e+12]", "has dimensions [1000000000000.0]; give one length"),
        ("dimensions: [100]", "dimensions: [long]", "has dimensions ['long']; give one length"),
        ("label: {dtype: bool}", "label: bool", "feature label is 'bool'; give its dtype"),
        (
            "features: &id001 [label, user_id, item_id_trgt, item_id_pos, item_id_neg]",
            "features: &id001",
            "split test lists no features",
        ),
        ("type: tfrecord", "type: csv", "split test is of type 'csv'; only tfrecord can be trained on"),
        ("files: [test.tfrecord]", "files: []", "split test lists no files"),
    ],
)
def test_a_broken_specification_is_one_line_naming_the_file(tmp_path: Path, old: str, new: str, line: str) -> None:
    with pytest.raises(KfrecError) as raised:
        load_feature_spec(write(tmp_path, EXAMPLE.replace(old, new)))
    assert str(raised.value).startswith(f"{tmp_path / 'feature_spec.yaml'}: ")
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_specification_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "feature_spec.yaml").write_text(EXAMPLE, encoding="utf-16")
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: not UTF-8 text; write it as UTF-8"):
        load_feature_spec(tmp_path)


def test_a_specification_that_the_manifest_does_not_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.tfrecord").write_bytes(b"")
    adopt(tmp_path)
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: not listed in _manifest\.json"):
        load_feature_spec(write(tmp_path, EXAMPLE))


def test_a_missing_specification_is_named(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: missing"):
        load_feature_spec(tmp_path)


def test_a_missing_channel_says_which_there_are(tmp_path: Path) -> None:
    spec = load_feature_spec(write(tmp_path, EXAMPLE))
    with pytest.raises(KfrecError, match="channel_spec has no context; it has label, negative_history"):
        spec.channel("context")


def _laughs(levels: int) -> str:
    rows = [f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(["metadata:", "  l0: &l0 [ha, ha]", *rows])


@pytest.mark.slow
@pytest.mark.parametrize(
    "metadata", [_laughs(9), "metadata: {a: &a [*a]}", "metadata: " + "[" * 5000], ids=["laughs", "a loop", "deep"]
)
def test_a_small_file_that_describes_gigabytes_is_refused_in_one_line(tmp_path: Path, metadata: str) -> None:
    write(tmp_path, EXAMPLE.replace("metadata: {}", metadata))
    with pytest.raises(KfrecError, match=r"feature_spec\.yaml: not YAML") as refused:
        load_feature_spec(tmp_path)
    assert len(str(refused.value)) < 500 and "\n" not in str(refused.value)


def test_a_message_shows_the_ends_of_a_large_value(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE.replace("metadata: {}", f"metadata: {'x' * 1_000_000}"))
    with pytest.raises(KfrecError, match=r"section metadata is 'xx.* \.\.\. .*; make it a mapping") as refused:
        load_feature_spec(tmp_path)
    assert len(str(refused.value)) < 2500
