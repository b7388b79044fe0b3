"""The description of a SavedModel's signature, written by the export: importing TensorFlow takes seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from components.errors import KfrecError

# TensorFlow leaves this folder of a SavedModel to its users.
_FILE = Path("assets.extra") / "signature.json"


@dataclass(frozen=True)
class Output:
    """An output of an exported model.

    Attributes:
        dtype: NumPy's name of its type, such as "float32".
        shape: of one sample; empty for a single value.
    """

    dtype: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Signature:
    """What the signature for serving takes and returns."""

    inputs: tuple[str, ...]
    outputs: Mapping[str, Output]


def damaged(saved: Path, error: Exception) -> KfrecError:
    """The error of a SavedModel that cannot be read."""
    reason = " ".join(str(error).split())[:200]
    return KfrecError(f"{saved}: cannot be loaded ({reason}); train again, or restore the folder")


def write_signature(saved: Path, signature: Signature) -> None:
    file = saved / _FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(asdict(signature), indent=2) + "\n")


def read_signature(saved: Path) -> Signature:
    """Reads the description.

    Raises:
        KfrecError: there is none, or it is damaged.
    """
    try:
        body = json.loads((saved / _FILE).read_text())
        outputs = {name: Output(str(each["dtype"]), tuple(each["shape"])) for name, each in body["outputs"].items()}
        return Signature(tuple(body["inputs"]), outputs)
    except FileNotFoundError:
        raise KfrecError(
            f"{saved}: does not say what it takes and returns, as models of an earlier kfrec or of other programs; "
            "train again"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(saved, error) from None
