from collections.abc import Iterator

import pytest

from tests.fakes.file_server import FileServer
from tests.fakes.object_stores import gcs_bucket, gcs_emulator, s3_client, s3_emulator

__all__ = ["gcs_bucket", "gcs_emulator", "s3_client", "s3_emulator"]


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer().running() as server:
        yield server
