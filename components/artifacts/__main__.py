"""Accepts a folder of your own data as an artifact: ``python -m components.artifacts FOLDER``."""

from __future__ import annotations

import argparse
import sys

from components.artifacts.publish import adopt
from components.errors import KfrecError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m components.artifacts", description=__doc__)
    parser.add_argument("folder", help="folder in the parquet or TFRecord layout that the docs describe")
    try:
        artifact = adopt(parser.parse_args().folder)
    except KfrecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{artifact.path}: {len(artifact.files)} files accepted, digest {artifact.digest[:12]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
