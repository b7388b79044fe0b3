"""docs/examples/sasrec.py is the model that kfrec trains."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.contract import LONGEST_LIST
from components.feature_spec import load_feature_spec
from components.models.sasrec import SasRecParameters
from components.models.sasrec.model import RANK, SasRec
from components.records import Records
from tests.pipelines.conftest import run_in_process

FILE = Path(__file__).parents[2] / "docs" / "examples" / "sasrec.py"
# The example's weights in the order of creation, by the names of kfrec's.
_LAYER = ("query", "key", "value", "mix")


def example() -> Any:
    spec = importlib.util.spec_from_file_location("sasrec_example", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules["sasrec_example"] = importlib.util.module_from_spec(spec)  # AutoGraph looks there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        folder = tmp_path_factory.mktemp("work") / "runs"
        values = (
            "epochs=4",
            "train_seed=1",
            "state_dropout=0.2",
            "global_batch_size=64",
            "catalogue_users=20",
            "refit=false",
        )
        words = [word for value in values for word in ("--set", value)]
        return run_in_process("--workdir", str(folder), "--model", "sasrec", *words).summary


def test_it_is_one_file_that_a_person_reads() -> None:
    lines = FILE.read_text().splitlines()
    assert len(lines) <= 400
    imported = {line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert not imported & {"components", "pipelines"}


@pytest.mark.slow
def test_with_the_same_weights_it_has_the_same_ranks(run: dict[str, Any]) -> None:
    folder = Path(run["artifacts"]["tfrecord"])
    spec = load_feature_spec(folder)
    theirs, data = SasRec(SasRecParameters(), spec, seed=1), example().Data(folder)
    ours = example().SasRec(data.rows, data.length)
    _copy(theirs, ours)
    mine = np.concatenate([ours.ranks(batch, data.first) for batch in data.batches("test", 64)])
    kept = []
    for batch in Records(spec, "test").batches(64):
        features = {name: tf.constant(values) for name, values in batch.items()}
        kept.append(theirs.outputs(features)[RANK].numpy()[np.asarray(batch["label"]) > 0])
    kfrecs = np.concatenate(kept)
    assert len(mine) == len(kfrecs) > 100
    # A rank differs where two scores differ in their last bits.
    one, other = (np.sort(np.minimum(ranks, LONGEST_LIST)) for ranks in (mine, kfrecs))
    np.testing.assert_allclose(one, other, atol=3)


@pytest.mark.slow
def test_it_learns_as_much_from_the_same_records(run: dict[str, Any]) -> None:
    tested = example().train(Path(run["artifacts"]["tfrecord"]), epochs=4, batch=64, dropout=0.2)
    assert tested["ndcg"] == pytest.approx(run["metrics"]["test_ndcg"], abs=0.02)
    assert min(tested["ndcg"], run["metrics"]["test_ndcg"]) > 0.02


def _copy(theirs: SasRec, ours: Any) -> None:
    ours.items.assign(theirs.items)
    ours.positions.assign(theirs.positions)
    pairs = [(ours.norm, theirs.norm)]
    for mine, layer in zip(ours.layers, theirs.transformer.layers, strict=True):
        pairs += [(mine.attended, layer.attention_norm), (mine.passed, layer.norm)]
        attention = layer.attention
        linear = zip(
            (*(getattr(mine, name) for name in _LAYER), mine.hidden, mine.output),
            (attention.query, attention.key, attention.value, attention.output, layer.hidden, layer.output),
            strict=True,
        )
        for one, other in linear:
            one.kernel.assign(other.kernel)
            one.bias.assign(other.bias)
    for one, other in pairs:
        one.gamma.assign(other.gamma)
        one.beta.assign(other.beta)
