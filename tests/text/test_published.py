"""Published weights of ELECTRA are those of the transformers package, in both directions."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.models.electra import ElectraParameters
from components.models.electra.model import Electra
from components.text.published import digest_of, export_published, import_published, is_published, read_published
from components.train.loop.state import named_state_of
from components.train.loop.warm_start import warm_start, weights_of
from pipelines.cli import main

LENGTH, HEADS = 24, 2
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(22))]
SIZES: dict[str, Any] = dict(
    encoder_layers=2, encoder_width=128, attention_heads=HEADS, feed_forward_width=48, token_width=24, positions=LENGTH,
    generator_share=0.5, hidden_dropout=0.0, attention_dropout=0.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def keras_stays() -> Iterator[None]:
    """Otherwise the package asks all later processes for another Keras."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_USE_LEGACY_KERAS", "0")
        patch.setenv("TRANSFORMERS_OFFLINE", "1")
        yield


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Random weights of both networks, as the public program saves them."""
    names = _checkpoint_shapes()
    random = np.random.default_rng(1)
    folder = tmp_path / "electra_small"
    folder.mkdir()
    initial = {name: random.normal(size=shape).astype(np.float32) * 0.2 for name, shape in names.items()}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saved = [tf.compat.v1.get_variable(name, initializer=values) for name, values in initial.items()]
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(saved).save(session, str(folder / "model.ckpt"), write_meta_graph=False)
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    return folder


def _checkpoint_shapes() -> dict[str, tuple[int, ...]]:
    def network(scope: str, width: int, hidden: int) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {
            f"{scope}/embeddings_project/kernel": (24, width), f"{scope}/embeddings_project/bias": (width,)
        }  # fmt: skip
        for number in range(2):
            layer = f"{scope}/encoder/layer_{number}"
            for part in ("self/query", "self/key", "self/value", "output/dense"):
                name = f"{layer}/attention/{part}"
                shapes |= {f"{name}/kernel": (width, width), f"{name}/bias": (width,)}
            for part in ("attention/output", "output"):
                shapes |= {f"{layer}/{part}/LayerNorm/gamma": (width,), f"{layer}/{part}/LayerNorm/beta": (width,)}
            shapes |= {
                f"{layer}/intermediate/dense/kernel": (width, hidden), f"{layer}/intermediate/dense/bias": (hidden,),
                f"{layer}/output/dense/kernel": (hidden, width), f"{layer}/output/dense/bias": (width,),
            }  # fmt: skip
        return shapes

    return {
        "electra/embeddings/word_embeddings": (len(TOKENS), 24),
        "electra/embeddings/position_embeddings": (LENGTH, 24),
        "electra/embeddings/token_type_embeddings": (2, 24),
        "electra/embeddings/LayerNorm/gamma": (24,),
        "electra/embeddings/LayerNorm/beta": (24,),
        **network("electra", 128, 48),
        **network("generator", 64, 24),
        "generator_predictions/dense/kernel": (64, 24),
        "generator_predictions/dense/bias": (24,),
        "generator_predictions/LayerNorm/gamma": (24,),
        "generator_predictions/LayerNorm/beta": (24,),
        "generator_predictions/output_bias": (len(TOKENS),),
        "discriminator_predictions/dense/kernel": (128, 128),
        "discriminator_predictions/dense/bias": (128,),
        "discriminator_predictions/dense_1/kernel": (128, 1),
        "discriminator_predictions/dense_1/bias": (1,),
    }


def _warm(folder: Path) -> Electra:
    spec = load_feature_spec(folder)
    model = Electra(ElectraParameters(**SIZES), spec, seed=3)
    warm_start(str(folder), folder, model, spec)
    return model


def _texts() -> dict[str, np.ndarray]:
    tokens = np.random.default_rng(2).integers(5, len(TOKENS), (4, LENGTH)).astype(np.int32)
    tokens[:, 0], tokens[0, 9:] = 2, 0
    return {"input_ids": tokens, "segment_ids": (np.arange(LENGTH) > 11).astype(np.int32) * np.ones_like(tokens)}


def _states(model: Electra, texts: dict[str, np.ndarray]) -> tuple[tf.Tensor, tf.Tensor]:
    tokens, segments = (tf.constant(texts[name]) for name in ("input_ids", "segment_ids"))
    states = model.encoder(model.embed(tokens, segments), tokens > 0)
    return states, model.head(states)


def test_a_checkpoint_gives_every_weight_of_both_networks(checkpoint: Path, tmp_path: Path) -> None:
    assert is_published(checkpoint) and not is_published(tmp_path)
    sizes = import_published(checkpoint, tmp_path / "model", checkpoint)
    assert sizes == {name: SIZES[name] for name in sizes} and len(sizes) == 7
    model = _warm(tmp_path / "model")
    reader = tf.train.load_checkpoint(str(checkpoint))
    wanted = sorted(float(np.sum(reader.get_tensor(name))) for name in _checkpoint_shapes())
    found = sorted(
        float(np.sum(values.numpy()[: len(TOKENS)] if name == "embeddings/words" else values))
        for name, values in named_state_of(model).items()
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    query = model.generator.transformer.layers[1].attention.query.kernel
    np.testing.assert_array_equal(query, reader.get_tensor("generator/encoder/layer_1/attention/self/query/kernel"))


def test_other_weights_in_the_same_folder_have_another_digest(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = digest_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"newer weights")
    assert len(before) == 8 and digest_of(tmp_path) != before


@pytest.mark.slow
def test_transformers_reads_what_is_exported_and_computes_the_same(checkpoint: Path, tmp_path: Path) -> None:
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    import transformers
    from transformers.modeling_tf_pytorch_utils import load_pytorch_state_dict_in_tf2_model

    import_published(checkpoint, tmp_path / "model", checkpoint)
    model, texts, folder = _warm(tmp_path / "model"), _texts(), tmp_path / "hub"
    weights = {name: weight.read() for name, weight in weights_of(tmp_path / "model").items()}
    export_published(weights, load_feature_spec(tmp_path / "model"), HEADS, folder)
    config = transformers.ElectraConfig.from_pretrained(folder, output_hidden_states=True)
    theirs = transformers.TFElectraForPreTraining(config)
    theirs, loading = load_pytorch_state_dict_in_tf2_model(
        theirs, load_file(folder / "model.safetensors"), output_loading_info=True
    )
    assert not loading["missing_keys"] and not loading["unexpected_keys"] and not loading["mismatched_keys"]
    given = dict(
        input_ids=texts["input_ids"], attention_mask=(texts["input_ids"] > 0).astype("i4"),
        token_type_ids=texts["segment_ids"],
    )  # fmt: skip
    found, (states, logits) = theirs(given), _states(model, texts)
    np.testing.assert_allclose(states, found.hidden_states[-1], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(logits, found.logits, atol=1e-5, rtol=1e-5)


def test_what_is_exported_is_imported_as_it_was(checkpoint: Path, tmp_path: Path) -> None:
    read = read_published(checkpoint)
    import_published(checkpoint, tmp_path / "model")
    weights = {name: weight.read() for name, weight in weights_of(tmp_path / "model").items()}
    export_published(weights, load_feature_spec(tmp_path / "model"), HEADS, tmp_path / "hub")
    again = read_published(tmp_path / "hub")
    assert (again.sizes, again.tokens) == (read.sizes, read.tokens) and set(again.weights) == set(read.weights)
    for name, values in read.weights.items():
        np.testing.assert_array_equal(again.weights[name], values)


def test_folders_that_do_not_fit_are_refused_in_one_line(checkpoint: Path, tmp_path: Path) -> None:
    import_published(checkpoint, tmp_path / "model")
    weights = {name: weight.read() for name, weight in weights_of(tmp_path / "model").items()}
    spec = load_feature_spec(tmp_path / "model")
    hub = tmp_path / "hub"
    export_published(weights, spec, HEADS, hub)
    with pytest.raises(KfrecError, match="hub: is not empty; name a new folder"):
        export_published(weights, spec, HEADS, hub)
    with pytest.raises(KfrecError, match="has no encoder of texts; give a model electra or electra_qa"):
        export_published({}, spec, HEADS, tmp_path / "none")
    with pytest.raises(KfrecError, match="has no weights generator/head/bias; give the folder of"):
        import_published(checkpoint, tmp_path / "other", hub)
    (hub / "vocab.txt").write_text("\n".join(TOKENS[:-1]) + "\n")
    with pytest.raises(KfrecError, match=r"vocab\.txt: has 26 tokens, but the table of words 27 rows"):
        read_published(hub)
    shutil.copy(checkpoint / "vocab.txt", hub)
    save_file({"bert.pooler.dense.weight": np.zeros([2, 2], np.float32)}, hub / "model.safetensors")
    with pytest.raises(KfrecError, match="has no weights embeddings/words; give the folder of"):
        read_published(hub)
    (hub / "model.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(KfrecError, match=r"model\.safetensors: cannot be read"):
        read_published(hub)


def test_the_commands_name_the_sizes_and_refuse_other_folders(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import-electra", str(checkpoint), "--output", str(tmp_path / "model")]) == 0
    assert "--set encoder_layers=2 --set encoder_width=128 --set attention_heads=2" in capsys.readouterr().out
    assert main(["export-electra", str(tmp_path / "model"), "--output", str(tmp_path / "hub")]) == 0
    assert json.loads((tmp_path / "hub" / "config.json").read_text())["num_attention_heads"] == HEADS
    assert main(["import-electra", str(tmp_path / "model"), "--output", str(tmp_path / "again")]) == 2
    assert "model: has no published weights; name a folder with vocab.txt" in capsys.readouterr().err
