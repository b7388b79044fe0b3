"""What all tests share: where the real data and the schemas are, and small raw data sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _folder_from(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: it names a folder that does not travel with the code")
    return Path(value)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with amazon_beauty/ and amazon_digital_music/."""
    return _folder_from("KFREC_DATA")
