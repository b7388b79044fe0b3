from collections.abc import Iterator

import pytest

from tests.fakes.file_server import FileServer


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer().running() as server:
        yield server
