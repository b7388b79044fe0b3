"""Accepts samples in the positional layout as an artifact; writes feature_spec.yaml from metadata.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from components.artifacts import adopt
from components.errors import KfrecError, explain_os_error
from components.feature_spec.positional import read_positional
from components.feature_spec.spec import FILENAME


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m components.feature_spec", description=__doc__)
    parser.add_argument("folder", help="folder with metadata.json, train/*.parquet and test/*.parquet")
    what = "columns after the label that describe the user (default 1)"
    parser.add_argument("--number_of_user_features", type=int, default=1, metavar="N", help=what)
    return parser


def main() -> int:
    options = parser().parse_args()
    folder = Path(options.folder)
    try:
        spec = read_positional(folder, options.number_of_user_features)
        _write(folder / FILENAME, spec.to_yaml())
        artifact = adopt(folder)
    except KfrecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{artifact.path}: {len(spec.features)} features described, {len(artifact.files)} files accepted")
    return 0


def _write(path: Path, text: str) -> None:
    """Writes a file that is not there yet.

    Raises:
        KfrecError: it is there with another content, or cannot be written.
    """
    try:
        if path.exists() and path.read_text(errors="replace") != text:
            raise KfrecError(f"{path}: is there already and says something else; remove it, or metadata.json")
        path.write_text(text)
    except OSError as error:
        raise explain_os_error(error, path) or error from error


if __name__ == "__main__":
    sys.exit(main())
