"""Published weights of ELECTRA: imported as a model to start from, and exported again.

A folder of them has ``vocab.txt`` and either ``config.json`` and ``model.safetensors``, the layout of the transformers
package, or the checkpoint of the public TensorFlow program.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from components.artifacts.publish import publishing
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.text.vocabulary import read_vocab_txt, tokenizer_of, write_vocabulary
from components.text.wordpiece import WordPiece
from components.text.writing import CHANNELS, token_features, token_metadata

CONFIG, WEIGHTS, VOCABULARY, CHECKPOINT = "config.json", "model.safetensors", "vocab.txt", "checkpoint"
# The folder of a model's weights, and the files in it, as ``components.train.export`` writes them.
TABLES, SPEC, DENSE = "tables", "tables.json", "dense.npz"
ENCODER, GENERATOR = "encoder", "generator"
_WORDS, _POSITIONS, _SEGMENTS = "embeddings/words", "embeddings/positions", "embeddings/segments"
# Names here and in the checkpoint.
_EMBEDDINGS = {_WORDS: "word_embeddings", _POSITIONS: "position_embeddings", _SEGMENTS: "token_type_embeddings"}
_LAYER = {
    "attention/query": "attention/self/query",
    "attention/key": "attention/self/key",
    "attention/value": "attention/self/value",
    "attention/output": "attention/output/dense",
    "attention/layer_norm": "attention/output/LayerNorm",
    "feed_forward/hidden": "intermediate/dense",
    "feed_forward/output": "output/dense",
    "feed_forward/layer_norm": "output/LayerNorm",
}
_HEADS = {
    ENCODER: {
        "replaced/dense": "discriminator_predictions/dense",
        "replaced/output": "discriminator_predictions/dense_1",
    },
    GENERATOR: {
        "generator/head/dense": "generator_predictions/dense",
        "generator/head/layer_norm": "generator_predictions/LayerNorm",
    },
}
_GENERATOR_BIAS = "generator/head/bias"
_PARTS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}
# Rows of the table of words are filled up to a multiple of this; see ``TokenEmbeddings``.
_MULTIPLE = 8
# Width of a head of every published model, which its checkpoint does not tell.
_HEAD_WIDTH = 64


def digest_of(folder: Path) -> str:
    """Eight digits of the checksum of a folder's weights.

    Raises:
        KfrecError: they cannot be read.
    """
    # A checkpoint's index has the checksums of its tensors.
    paths = [path] if (path := folder / WEIGHTS).is_file() else sorted(folder.glob("*.index"))
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise KfrecError(f"{path}: cannot be read: {error.strerror}; fetch the model again") from error
    return digest.hexdigest()[:8]


def is_published(folder: Path) -> bool:
    """Whether a folder has published weights rather than a model of kfrec's."""
    return (folder / VOCABULARY).is_file() and ((folder / WEIGHTS).is_file() or (folder / CHECKPOINT).is_file())


class _Named(NamedTuple):
    """A weight's names.

    Attributes:
        ours: the name here.
        checkpoint: that of the public program, below the scope of its network.
        transformers: that of the transformers package, which stores kernels transposed.
    """

    ours: str
    checkpoint: str
    transformers: str

    @property
    def is_kernel(self) -> bool:
        return self.ours.endswith("/kernel")


def _names(scope: str, layers: int) -> Iterator[_Named]:
    """The weights of a network, the discriminator's (``encoder``) or the generator's."""
    for ours, theirs in _EMBEDDINGS.items():
        yield _Named(ours, f"embeddings/{theirs}", f"electra.embeddings.{theirs}.weight")
    modules = {"embeddings/layer_norm": "embeddings/LayerNorm", f"{scope}/projection": "embeddings_project"}
    for number in range(layers):
        modules |= {f"{scope}/layer_{number}/{a}": f"encoder/layer_{number}/{b}" for a, b in _LAYER.items()}
    for ours, theirs in (modules | _HEADS[scope]).items():
        for part in ("gamma", "beta") if theirs.endswith("LayerNorm") else ("kernel", "bias"):
            dotted = (
                re.sub(r"layer_(\d+)", r"layer.\1", theirs).replace("/", ".").replace("dense_1", "dense_prediction")
            )
            owner = "" if ours.startswith(tuple(_HEADS[scope])) else "electra."
            yield _Named(f"{ours}/{part}", f"{theirs}/{part}", f"{owner}{dotted}.{_PARTS[part]}")
    if scope == GENERATOR:
        yield _Named(_GENERATOR_BIAS, "generator_predictions/output_bias", "generator_lm_head.bias")


@dataclass(frozen=True)
class Published:
    """Weights of a folder.

    Attributes:
        weights: by their names here.
        sizes: values of the parameters of ``components.models.encoder.SIZES``.
        tokens: in the order of their ids.
    """

    weights: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]
    tokens: tuple[str, ...]


def read_published(folder: Path, scope: str = ENCODER) -> Published:
    """Reads published weights.

    Args:
        scope: ``encoder`` for a discriminator or a model that was fine-tuned from it, ``generator`` for a generator.

    Raises:
        KfrecError: a file is missing or damaged, or the weights are not those of an ELECTRA.
    """
    tokens = tuple(read_vocab_txt(folder / VOCABULARY))
    in_layout = (folder / WEIGHTS).is_file()
    weights, layers = (_of_safetensors if in_layout else _of_checkpoint)(folder, scope)
    first, kind = f"{scope}/layer_0", "generator" if scope == GENERATOR else "discriminator"
    needed = [*_EMBEDDINGS, f"{first}/attention/query/kernel", f"{first}/feed_forward/hidden/kernel"]
    for name in needed + [_GENERATOR_BIAS] * (scope == GENERATOR):
        if name not in weights:
            raise KfrecError(f"{folder}: has no weights {name}; give the folder of a published {kind} of ELECTRA")
    words, width = weights[_WORDS], weights[f"{first}/attention/query/kernel"].shape[1]
    if len(words) != len(tokens):
        raise KfrecError(
            f"{folder / VOCABULARY}: has {len(tokens):,} tokens, but the table of words {len(words):,} rows; take both "
            "files of one model"
        )
    weights[_WORDS] = np.pad(words, [(0, -len(words) % _MULTIPLE), (0, 0)])
    sizes = {
        "encoder_layers": layers,
        "encoder_width": width,
        "attention_heads": _heads(folder) if in_layout else width // _HEAD_WIDTH,
        "feed_forward_width": weights[f"{first}/feed_forward/hidden/kernel"].shape[1],
        "token_width": words.shape[1],
        "positions": len(weights[_POSITIONS]),
    }
    return Published(weights, sizes, tokens)


def import_published(folder: Path, output: Path, generator: Path | None = None) -> Mapping[str, Any]:
    """Writes published weights as a model that a training starts from (``warm_start_path``, ``workflow``).

    Args:
        folder: of the discriminator, or of a model that was fine-tuned from it.
        generator: folder of its generator, which going on with the pre-training needs.

    Returns:
        The sizes: values of parameters that the training must have.

    Raises:
        KfrecError: see ``read_published``; or the generator is another model's.
    """
    read = read_published(folder)
    weights, sizes = dict(read.weights), dict[str, Any](read.sizes)
    if generator is not None:
        other = read_published(generator, GENERATOR)
        if other.tokens != read.tokens or not np.array_equal(other.weights[_WORDS], weights[_WORDS]):
            raise KfrecError(f"{generator}: has other tokens than {folder}; give the generator of the same model")
        weights = {**other.weights, **weights}
        sizes["generator_share"] = other.sizes["encoder_width"] / sizes["encoder_width"]
    tokenizer = WordPiece(read.tokens, str(folder / VOCABULARY))
    features = {feature.name: feature for feature in token_features(tokenizer, sizes["positions"])}
    metadata = {**token_metadata(tokenizer), "encoding": {"dataset": "text", "vocabulary": "given"}}
    with publishing(output, step="train", reads=[folder], parameters={"published": folder.name, **sizes}) as staging:
        write_vocabulary(read.tokens, staging.path)
        (staging.path / FILENAME).write_text(FeatureSpec(features, {}, CHANNELS, metadata).to_yaml())
        (staging.path / TABLES).mkdir()
        np.savez(staging.path / TABLES / DENSE, **weights)  # type: ignore[arg-type]
        (staging.path / TABLES / SPEC).write_text(json.dumps({"tables": {}, "features": {}}) + "\n")
    return sizes


def export_published(weights: Mapping[str, np.ndarray], spec: FeatureSpec, heads: int, output: Path) -> None:
    """Writes a discriminator in the layout of the transformers package.

    Args:
        weights: of a model, by their names here.
        heads: attention heads of a layer.

    Raises:
        KfrecError: the weights have no encoder of texts, or the folder has files.
    """
    from safetensors.numpy import save_file

    query = weights.get(f"{ENCODER}/layer_0/attention/query/kernel")
    if query is None:
        raise KfrecError(f"{spec.folder}: has no encoder of texts; give a model electra or electra_qa")
    if output.exists() and any(output.iterdir()):
        raise KfrecError(f"{output}: is not empty; name a new folder")
    tokenizer, layers = tokenizer_of(spec), _count(rf"^{ENCODER}/layer_(\d+)/", weights)
    own = {**weights, _WORDS: weights[_WORDS][: len(tokenizer)]}
    held = [name for name in _names(ENCODER, layers) if name.ours in own]
    tensors = {each.transformers: own[each.ours].T if each.is_kernel else own[each.ours] for each in held}
    output.mkdir(parents=True, exist_ok=True)
    save_file(
        {key: np.ascontiguousarray(values) for key, values in tensors.items()}, output / WEIGHTS, {"format": "pt"}
    )
    config = {
        "model_type": "electra",
        "architectures": ["ElectraForPreTraining"],
        "vocab_size": len(tokenizer),
        "embedding_size": own[_WORDS].shape[1],
        "hidden_size": query.shape[1],
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": own[f"{ENCODER}/layer_0/feed_forward/hidden/kernel"].shape[1],
        "max_position_embeddings": len(own[_POSITIONS]),
        "type_vocab_size": len(own[_SEGMENTS]),
    }
    (output / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    (output / VOCABULARY).write_text("".join(f"{token}\n" for token in tokenizer.tokens), encoding="utf-8")


def _heads(folder: Path) -> int:
    path = folder / CONFIG
    try:
        return int(json.loads(path.read_text())["num_attention_heads"])
    except FileNotFoundError:
        raise KfrecError(f"{folder}: has no {CONFIG}; take all files of the model") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KfrecError(f"{path}: does not tell num_attention_heads; fetch the model again") from error


def _of_safetensors(folder: Path, scope: str) -> tuple[dict[str, np.ndarray], int]:
    """The weights of a network, and the number of its layers."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / WEIGHTS, "np") as file:
            layers = _count(r"encoder\.layer\.(\d+)\.", keys := set(file.keys()))
            names = [name for name in _names(scope, layers) if name.transformers in keys]
            read = {name: np.asarray(file.get_tensor(name.transformers), np.float32) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise KfrecError(f"{folder / WEIGHTS}: cannot be read: {error}; fetch the model again") from error
    return {name.ours: values.T if name.is_kernel else values for name, values in read.items()}, layers


def _of_checkpoint(folder: Path, scope: str) -> tuple[dict[str, np.ndarray], int]:
    """As ``_of_safetensors``; a checkpoint of a pre-training has both networks, which share the embeddings."""
    import tensorflow as tf

    network = "generator" if scope == GENERATOR else "electra"
    try:
        reader = tf.train.load_checkpoint(str(folder))
        keys = set(reader.get_variable_to_shape_map())
        layers = _count(rf"^{network}/encoder/layer_(\d+)/", keys)

        def place(name: _Named) -> str:
            places = (f"{network}/{name.checkpoint}", name.checkpoint, f"electra/{name.checkpoint}")
            return next((each for each in places if each in keys), "")

        read = {name: reader.get_tensor(place(name)) for name in _names(scope, layers) if place(name)}
    except (ValueError, IndexError, tf.errors.OpError) as error:
        raise KfrecError(f"{folder}: its checkpoint cannot be read: {error}; fetch the model again") from error
    return {name.ours: np.asarray(values, np.float32) for name, values in read.items()}, layers


def _count(pattern: str, names: Iterable[str]) -> int:
    """The number of layers, by the names of their weights."""
    return 1 + max((int(found[1]) for name in names if (found := re.search(pattern, name))), default=-1)
