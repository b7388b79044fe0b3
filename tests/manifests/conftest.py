from pathlib import Path

import pytest

from tests.manifests.test_create_secrets import secrets_in


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """The folder where create-secrets.sh keeps secrets."""
    return secrets_in(tmp_path)
