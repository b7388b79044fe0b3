"""Artifacts whose manifests are right and whose content is not: one line that names the file, and nothing lost."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from components.artifacts import adopt
from tests.harm.place import EVALUATION, MODEL, PARQUET, RAW, folders_of, run_here

pytestmark = pytest.mark.slow
Damage = Callable[[Path], object]
REVIEW = '{"reviewerID": "ann", "asin": "b1", "unixReviewTime": 1}\n'


def _reviews(content: bytes, name: str = "reviews_Synthetic.json") -> Damage:
    def damage(folder: Path) -> None:
        (folder / "reviews_Synthetic.json.gz").unlink()
        (folder / name).write_bytes(content)

    return damage


def _every_review(before: str, after: str) -> Damage:
    """Replaces text in every line of the reviews."""

    def damage(folder: Path) -> None:
        path = folder / "reviews_Synthetic.json.gz"
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(before.encode(), after.encode())))

    return damage


def _metadata(content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "meta_Synthetic.json.gz").unlink()
        (folder / "meta_Synthetic.json").write_bytes(content)

    return damage


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


_GZIPPED = "reviews_Synthetic.json.gz"
RAW_DAMAGES: dict[str, tuple[Damage, str]] = {
    "no lines": (_reviews(b""), "reviews_Synthetic.json"),
    "blank lines": (_reviews(b"\n \n\n"), "reviews_Synthetic.json"),
    "utf-16 with a mark": (_reviews((REVIEW * 50).encode("utf-16")), "UTF-16"),
    "utf-16 little": (_reviews((REVIEW * 50).encode("utf-16-le")), "UTF-16"),
    "utf-32": (_reviews((REVIEW * 50).encode("utf-32")), "reviews_Synthetic.json"),
    "latin-1 names": (_reviews('{"reviewerID": "é", "asin": "b", "unixReviewTime": 1}\n'.encode("latin-1")), "UTF-8"),
    "nul in names": (_every_review('"reviewerID": "A', '"reviewerID": "A\\u0000'), "reviewerID"),
    "a list": (_reviews(b"[" + REVIEW.encode() + b"]\n"), "a JSON array"),
    "csv": (_reviews(b"reviewerID,asin,unixReviewTime\nann,b1,1\n"), "not JSON"),
    "binary": (_reviews(bytes(range(256)) * 20), "reviews_Synthetic.json"),
    "no reviewerID": (_every_review("reviewerID", "reviewer"), "no reviewerID"),
    "no asin": (_every_review("asin", "item"), "no asin"),
    "no time": (_every_review("unixReviewTime", "time"), "no unixReviewTime"),
    "empty names": (_reviews(b'{"reviewerID": "", "asin": "b", "unixReviewTime": 1}\n' * 9), "no reviewerID"),
    "numbers for names": (_reviews(b'{"reviewerID": 7, "asin": "b", "unixReviewTime": 1}\n' * 9), "reviewerID"),
    "text for a time": (_reviews(b'{"reviewerID": "a", "asin": "b", "unixReviewTime": "now"}\n' * 9), "unixReviewTime"),
    "nan for a time": (_reviews(b'{"reviewerID": "a", "asin": "b", "unixReviewTime": NaN}\n' * 9), "reviews_Syn"),
    "a time too large": (_reviews(b'{"reviewerID": "a", "asin": "b", "unixReviewTime": 1e30}\n' * 9), "unixReviewTime"),
    "gzip cut off": (_bytes(_GZIPPED, lambda content: content[:-900]), _GZIPPED),
    "gzip damaged": (_bytes(_GZIPPED, _flipped), _GZIPPED),
    "gzip of nothing": (_bytes(_GZIPPED, lambda content: b""), _GZIPPED),
    "not gzip": (_bytes(_GZIPPED, lambda content: b"plain text" * 100), _GZIPPED),
    "no reviews file": (lambda folder: (folder / _GZIPPED).unlink(), "no reviews_*.json"),
    "no metadata file": (lambda folder: (folder / "meta_Synthetic.json.gz").unlink(), "no meta_*.json"),
    "there twice": (lambda folder: (folder / "reviews_Synthetic.json").write_text(REVIEW), "also exists as"),
    "users with few reviews": (_reviews((REVIEW * 5).encode()), "no user has 20 events"),
    "metadata of others": (
        _metadata(b"{'asin': 'other', 'categories': [['A', 'B']]}\n"),
        "no reviewed item a category",
    ),
    "metadata without categories": (_metadata(b"{'asin': 'B000000001'}\n"), "no reviewed item a category"),
    "metadata utf-16": (_metadata(("{'asin': 'a'}\n" * 50).encode("utf-16")), "UTF-16"),
    "metadata of nothing": (_metadata(b"not a literal\n" * 30), "meta_Synthetic.json"),
    "metadata deep": (_metadata(b"[" * 5000 + b"\n"), "meta_Synthetic.json"),
    "metadata code": (_metadata(b"__import__('os').system('false')\n" * 30), "meta_Synthetic.json"),
}


@pytest.mark.parametrize("wrong", RAW_DAMAGES)
def test_raw_files(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage, named = RAW_DAMAGES[wrong]
    damage(here / RAW)
    adopt(here / RAW)
    outcome = run_here(["preprocess", *folders_of("preprocess"), "--workers=1"], capfd)
    assert not outcome.surprise("preprocess", named)


def _column(name: str, change: Callable[[pa.Array], pa.Array]) -> Damage:
    """Changes a column of the training samples."""

    def damage(folder: Path) -> None:
        path = folder / "train" / "part.0.parquet"
        table = pq.read_table(path)
        place = table.schema.get_field_index(name)
        pq.write_table(table.set_column(place, name, change(table[name].combine_chunks())), path)

    return damage


def _first_is(value: object) -> Callable[[pa.Array], pa.Array]:
    return lambda column: pa.array([value, *column.to_pylist()[1:]], column.type)


def _lists(change: Callable[[list[int]], list[int] | None]) -> Callable[[pa.Array], pa.Array]:
    return lambda column: pa.array([change(column[0].as_py()), *column.to_pylist()[1:]], pa.list_(pa.int32()))


def _without_column(folder: Path) -> None:
    path = folder / "train" / "part.0.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns([table.column_names[-1]]), path)


def _part_with_other_columns(folder: Path) -> None:
    table = pq.read_table(folder / "train" / "part.0.parquet")
    names = ["another", *table.column_names[1:]]
    pq.write_table(table.rename_columns(names), folder / "train" / "part.1.parquet")


def _part_without_rows(folder: Path) -> None:
    path = folder / "test" / "part.0.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def _without_schema(content: bytes) -> bytes:
    """A parquet file whose footer begins with zeros; nothing at its end is needed."""
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:begin] + bytes(32) + content[begin + 32 :]


def _spec(change: Callable[[Any], Any]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "feature_spec.yaml"
        body = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(change(body) or body))

    return damage


def _feature(name: str, **entries: object) -> Damage:
    return _spec(lambda body: body["feature_spec"][name].update(entries))


def _channel(name: str, *features: str) -> Damage:
    return _spec(lambda body: body["channel_spec"].update({name: list(features)}))


def _source(**entries: object) -> Damage:
    return _spec(lambda body: body["source_spec"]["train"][0].update(entries))


def _note(split: str, **entries: object) -> Damage:
    return _spec(lambda body: body["metadata"].setdefault(split, {}).update(entries))


_PART = "train/part.0.parquet"
PARQUET_DAMAGES: dict[str, tuple[Damage, str]] = {
    "no specification": (lambda folder: (folder / "feature_spec.yaml").unlink(), "feature_spec.yaml"),
    "columns a list": (_spec(lambda body: body["metadata"].update(columns=["label"])), "feature_spec.yaml"),
    "cardinality too small": (_feature("item_trgt", cardinality=4), "above the cardinality 4"),
    "no training samples": (lambda folder: shutil.rmtree(folder / "train"), "train"),
    "no test samples": (_part_without_rows, "test"),
    "a column less": (_without_column, _PART),
    "other columns in a part": (_part_with_other_columns, "part.1.parquet"),
    "not parquet": (_bytes(_PART, lambda content: b"PAR1 but not really"), _PART),
    "cut off": (_bytes(_PART, lambda content: content[: len(content) // 2]), _PART),
    "footer damaged": (_bytes(_PART, _without_schema), _PART),
    "empty file": (_bytes(_PART, lambda content: b""), _PART),
    "label 2": (_column("label", _first_is(2)), _PART),
    "label below 0": (_column("label", _first_is(-1)), _PART),
    "label null": (_column("label", _first_is(None)), _PART),
    "label a fraction": (_column("label", lambda c: pa.array(np.full(len(c), 0.5))), _PART),
    "label of text": (_column("label", lambda c: pa.array(["yes"] * len(c))), _PART),
    "user 0": (_column("uid", _first_is(0)), _PART),
    "item 0": (_column("item", _first_is(0)), _PART),
    "item below 0": (_column("item", _first_is(-3)), _PART),
    "item null": (_column("item", _first_is(None)), _PART),
    "items of text": (_column("item", lambda c: pa.array(["B001"] * len(c))), _PART),
    "items of floats": (_column("item", lambda c: pa.array(np.ones(len(c)))), _PART),
    "items beyond 32 bits": (_column("item", lambda c: pa.array(np.full(len(c), 2**40))), _PART),
    "items in lists": (_column("item", lambda c: pa.array([[1]] * len(c))), _PART),
    "history of numbers": (_column("item_sequence", lambda c: pa.array(np.ones(len(c), np.int32))), _PART),
    "history null": (_column("item_sequence", _lists(lambda items: None)), _PART),
    "history with a null": (_column("item_sequence", _lists(lambda items: [None, *items[1:]])), _PART),  # type: ignore[list-item]
    "history beyond": (_column("item_sequence", _lists(lambda items: [*items[:-1], 10**6])), _PART),
    "history below 0": (_column("item_sequence", _lists(lambda items: [*items[:-1], -1])), _PART),
    "categories longer than items": (_column("cat_sequence", _lists(lambda items: [*items, 3])), _PART),
    "categories shorter than items": (_column("cat_sequence", _lists(lambda items: items[1:])), _PART),
    "histories all empty": (_column("item_sequence", lambda c: pa.array([[]] * len(c), pa.list_(pa.int32()))), PARQUET),
}


@pytest.mark.parametrize("wrong", PARQUET_DAMAGES)
def test_samples_in_parquet(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage, named = PARQUET_DAMAGES[wrong]
    damage(here / PARQUET)
    adopt(here / PARQUET)
    outcome = run_here(["tfrecord", *folders_of("tfrecord"), "--workers=1"], capfd)
    assert not outcome.surprise("tfrecord", named)


_SPEC, _RECORDS = "feature_spec.yaml", "train/part_0.tfrecord"
SPEC_DAMAGES: dict[str, tuple[Damage, str]] = {
    "gone": (lambda folder: (folder / _SPEC).unlink(), _SPEC),
    "not yaml": (_bytes(_SPEC, lambda content: b"{a: [b"), _SPEC),
    "not text": (_bytes(_SPEC, lambda content: b"\xff\xfe\x00\x01"), _SPEC),
    "a python object": (_bytes(_SPEC, lambda content: b"!!python/object/apply:os.system [false]"), _SPEC),
    "empty": (_bytes(_SPEC, lambda content: b""), _SPEC),
    "a list": (_spec(lambda body: [1, 2]), _SPEC),
    **{
        f"no {section}": (_spec(lambda body, section=section: body.pop(section) and None), section)  # type: ignore[misc]
        for section in ("feature_spec", "source_spec", "channel_spec")
    },
    **{
        f"{section} a list": (_spec(lambda body, section=section: body.update({section: [3]})), section)  # type: ignore[misc]
        for section in ("feature_spec", "source_spec", "channel_spec")
    },
    "metadata a list": (_spec(lambda body: body.update(metadata=[3])), _SPEC),
    "metadata of a split a number": (_spec(lambda body: body["metadata"].update(train=3)), _SPEC),
    **{
        f"cardinality {value!r}": (_feature("item_trgt", cardinality=value), "item_trgt")
        for value in (0, "many", 1.5, True, 2**31, float("nan"))
    },
    "no cardinality": (_spec(lambda body: body["feature_spec"]["item_trgt"].pop("cardinality") and None), "item_trgt"),
    "cardinalities that differ": (_feature("item_trgt", cardinality=91), "item_trgt"),
    **{
        f"dimensions {value!r}": (_feature("item_pos", dimensions=value), "item_pos")
        for value in ([0], "long", [1, 2], [1.5], [10**12], 12)
    },
    "dimensions of a target": (_feature("item_trgt", dimensions=[3]), "item_trgt"),
    "dtype of text": (_feature("item_trgt", dtype="string"), "item_trgt"),
    "dtype a number": (_feature("item_trgt", dtype=64), "item_trgt"),
    "a feature that is a number": (_spec(lambda body: body["feature_spec"].update(item_trgt=3)), "item_trgt"),
    "channel with a stranger": (_channel("user_features", "stranger"), "stranger"),
    "no targets": (_channel("target_item_features"), "target_item_features"),
    "fewer targets": (_channel("target_item_features", "item_trgt"), "positive_history"),
    "two labels": (_channel("label", "label", "uid"), "label"),
    "no label": (_channel("label"), "label"),
    "label channel gone": (_spec(lambda body: body["channel_spec"].pop("label") and None), "label"),
    "channel a number": (_spec(lambda body: body["channel_spec"].update(label=3)), "label"),
    "a source of csv": (_source(type="csv"), "csv"),
    "no files": (_source(files=[]), "train"),
    "files a number": (_source(files=3), "train"),
    "files of text": (_source(files="train/part_0.tfrecord"), "train"),
    "a file that is not there": (_source(files=["train/none.tfrecord"]), "none.tfrecord"),
    "a file elsewhere": (_source(files=["../documents/thesis.txt"]), "thesis.txt"),
    "an absolute file": (_source(files=["/etc/passwd"]), "/etc/passwd"),
    "features a number": (_source(features=3), "train"),
    "features with a stranger": (_source(features=["label", "stranger"]), "stranger"),
    "features without the label": (_source(features=["uid"]), "label"),
    "no train split": (_spec(lambda body: body["source_spec"].pop("train") and None), "train"),
    "a chunk that is text": (_spec(lambda body: body["source_spec"].update(train=["x"])), "train"),
    "two chunks": (_spec(lambda body: body["source_spec"].update(train=body["source_spec"]["train"] * 2)), "train"),
    "rows of fewer files": (_note("train", rows_per_file=[]), _SPEC),
    "rows that are too many": (_note("train", rows_per_file=[10**6]), "part_0.tfrecord"),
    "rows of text": (_note("train", rows_per_file=["many"]), _SPEC),
    "a prebatch size of text": (_note("train", prebatch_size="many"), _SPEC),
    "a prebatch size below 0": (_note("train", prebatch_size=-4), _SPEC),
    "records of nothing": (_bytes(_RECORDS, lambda content: b""), "train"),
    "records cut off": (_bytes(_RECORDS, lambda content: content[:-7]), _RECORDS),
    "records that are none": (_bytes(_RECORDS, lambda content: b"no records" * 100), _RECORDS),
    "records with a flipped bit": (_bytes(_RECORDS, _flipped), _RECORDS),
    "cardinalities of billions": (
        _spec(
            lambda body: (
                [body["feature_spec"][n].update(cardinality=2 * 10**9) for n in ("item_trgt", "item_pos", "item_neg")]
                and None
            )
        ),
        "GB",
    ),
    "ids beyond": (
        _spec(
            lambda body: (
                [body["feature_spec"][n].update(cardinality=12) for n in ("item_trgt", "item_pos", "item_neg")] and None
            )
        ),
        "above the cardinality 12",
    ),
    "a longer history in records": (
        _spec(lambda body: [body["feature_spec"][n].update(dimensions=[11]) for n in ("item_pos", "cat_pos")] and None),
        "_pos has more than 11 values",
    ),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.train.dataset import write_dataset

    return write_dataset(tmp_path_factory.mktemp("records") / "records", train=100, test=60)


WORKER = ["--dataset_dir=records", "--results_dir=out", "--long_seq_length=8", "--embedding_dim=2",
          "--global_batch_size=50", "--epochs=1", "--seed=1", "--stage_dir=stage"]  # fmt: skip


@pytest.mark.parametrize("wrong", SPEC_DAMAGES)
def test_records_and_their_specification(
    wrong: str, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Threads and cores are set for a whole process, and this one has used TensorFlow already.
    monkeypatch.setattr("components.train.loop.runtime.configure", lambda *_: None)
    shutil.copytree(records, tmp_path / "records")
    (tmp_path / "out").mkdir()
    damage, named = SPEC_DAMAGES[wrong]
    damage(tmp_path / "records")
    adopt(tmp_path / "records")
    outcome = run_here(["worker", *WORKER], capfd)
    made = {"out/log.json", "out/checkpoint"}  # a training that had begun leaves its log and its checkpoints
    assert not outcome.without(made).surprise("train", named)


@pytest.mark.parametrize("place", ["documents", "/proc", "documents/thesis.txt"])
def test_results_folders_of_others(
    place: str, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("components.train.loop.runtime.configure", lambda *_: None)
    (tmp_path / "documents" / "saved_model").mkdir(parents=True)
    (tmp_path / "documents" / "thesis.txt").write_text("years of work")
    outcome = run_here(["worker", *WORKER, f"--dataset_dir={records}", f"--results_dir={place}"], capfd)
    assert not outcome.surprise("train")


def _cut_data(prefix: Path) -> None:
    path = next(prefix.parent.glob(f"{prefix.name}.data-*"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _suffix(suffix: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def damage(prefix: Path) -> None:
        path = next(prefix.parent.glob(f"{prefix.name}{suffix}"))
        path.write_bytes(change(path.read_bytes()))

    return damage


CHECKPOINT_DAMAGES: dict[str, Callable[[Path], object]] = {
    "data cut off": _cut_data,
    "data of junk": _suffix(".data-*", lambda content: b"junk" * 99),
    "no data": lambda prefix: next(prefix.parent.glob(f"{prefix.name}.data-*")).unlink(),
    "index cut off": _suffix(".index", lambda content: content[: len(content) // 2]),
    "index of junk": _suffix(".index", lambda content: b"junk" * 99),
    "no index": lambda prefix: (prefix.parent / f"{prefix.name}.index").unlink(),
    "list of junk": lambda prefix: (prefix.parent / "checkpoint").write_bytes(b"\xff\xfe junk"),
    "list of another": lambda prefix: (prefix.parent / "checkpoint").write_text('model_checkpoint_path: "none"\n'),
    "nothing": lambda prefix: shutil.rmtree(prefix.parent),
}


# With DIN, the model that is traced soonest.
SOONEST = [word for word in WORKER if not word.startswith("--long_seq_length")] + ["--model_type=din"]


@pytest.fixture(scope="module")
def trained(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short training's checkpoints."""
    from components.train import worker

    out = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("components.train.loop.runtime.configure", lambda *_: None)
        assert worker.main([*SOONEST, f"--dataset_dir={records}", f"--results_dir={out}"]) == 0
    return out / "checkpoint"


@pytest.mark.parametrize("wrong", CHECKPOINT_DAMAGES)
def test_checkpoints(
    wrong: str, records: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("components.train.loop.runtime.configure", lambda *_: None)
    shutil.copytree(records, tmp_path / "records")
    shutil.copytree(trained, tmp_path / "earlier")
    (tmp_path / "out").mkdir()
    CHECKPOINT_DAMAGES[wrong](next((tmp_path / "earlier").glob("*.index")).with_suffix(""))
    outcome = run_here(["worker", *SOONEST, "--epochs=2", "--load_checkpoint_path=earlier"], capfd)
    if wrong.startswith("list of"):
        # Checkpoints are found by their files.
        assert outcome.status == 0
    else:
        assert not outcome.without({"out/log.json", "out/checkpoint"}).surprise("train", "earlier")


def _parameters_json(text: str) -> Damage:
    return _bytes("parameters.json", lambda content: text.encode())


def _smaller_variables(folder: Path) -> None:
    path = next((folder / "saved_model" / "variables").glob("*.data-*"))
    path.write_bytes(path.read_bytes()[:20])


MODEL_DAMAGES: dict[str, tuple[Damage, str]] = {
    "no model": (lambda folder: shutil.rmtree(folder / "saved_model"), "saved_model"),
    "junk for a model": (_bytes("saved_model/saved_model.pb", lambda content: b"junk" * 50), "saved_model"),
    "a model cut off": (_bytes("saved_model/saved_model.pb", lambda content: content[:3000]), "saved_model"),
    "no weights": (lambda folder: shutil.rmtree(folder / "saved_model" / "variables"), "saved_model"),
    "weights cut off": (_smaller_variables, "saved_model"),
    "weights' index of junk": (_bytes("saved_model/variables/variables.index", lambda content: b"junk"), "saved_model"),
    "no specification": (lambda folder: (folder / _SPEC).unlink(), _SPEC),
    "parameters of junk": (_parameters_json("{"), "parameters.json"),
    "parameters a list": (_parameters_json("[]"), "parameters.json"),
    "parameters not text": (_bytes("parameters.json", lambda content: b"\xff\xfe\x00"), "parameters.json"),
    "vocabulary of junk": (_bytes("vocabulary/item.parquet", lambda content: b"junk"), "item.parquet"),
    "vocabulary gone": (lambda folder: (folder / "vocabulary/item.parquet").unlink(), "item.parquet"),
    "vocabulary of other columns": (
        lambda folder: pq.write_table(pa.table({"a": [1]}), folder / "vocabulary/item.parquet"), "item.parquet"
    ),
    "results of junk": (_bytes("training.json", lambda content: b"{"), "training.json"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", MODEL_DAMAGES)
def test_models(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage, named = MODEL_DAMAGES[wrong]
    damage(here / MODEL)
    adopt(here / MODEL)
    outcome = run_here(["evaluate", *folders_of("evaluate")], capfd)
    assert not outcome.surprise("evaluate", named)


EVALUATION_DAMAGES: dict[str, tuple[Damage, str]] = {
    "no metrics": (lambda folder: (folder / "metrics.json").unlink(), "metrics.json"),
    "metrics of junk": (_bytes("metrics.json", lambda content: b"{"), "metrics.json"),
    "metrics a list": (_bytes("metrics.json", lambda content: b"[]"), "metrics.json"),
    "metrics without the AUC": (_bytes("metrics.json", lambda content: b"{}"), "metrics.json"),
    "an AUC of text": (_bytes("metrics.json", lambda content: b'{"test_auc": "good"}'), "metrics.json"),
}


@pytest.mark.parametrize("wrong", EVALUATION_DAMAGES)
def test_evaluations(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    manifest = json.loads((here / EVALUATION / "_manifest.json").read_text())
    damage, named = EVALUATION_DAMAGES[wrong]
    damage(here / EVALUATION)
    adopt(here / EVALUATION)
    path = here / EVALUATION / "_manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"inputs": manifest["inputs"]}))
    outcome = run_here(["register", *folders_of("register")], capfd)
    assert not outcome.surprise("register", named)
