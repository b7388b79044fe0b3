from __future__ import annotations

import base64
import gzip
import hashlib

import google_crc32c
import pytest

from components.errors import KfrecError
from components.storage import Checksum, open_store
from tests.fakes.file_server import Fault, FileServer

CONTENT = bytes(range(256)) * 40


def test_content_md5_is_the_checksum(server: FileServer) -> None:
    md5 = base64.b64encode(hashlib.md5(CONTENT).digest()).decode()
    server.files["/a"] = CONTENT
    server.headers["/a"] = {"Content-MD5": md5}
    assert open_store(server.url).stat("a").checksum == Checksum("md5", md5)


def test_the_crc32c_of_x_goog_hash_is_the_checksum(server: FileServer) -> None:
    crc = base64.b64encode(google_crc32c.Checksum(CONTENT).digest()).decode()
    server.files["/a"] = CONTENT
    server.headers["/a"] = {"x-goog-hash": f"crc32c={crc},md5=AAAAAAAAAAAAAAAAAAAAAA=="}
    assert open_store(server.url).stat("a").checksum == Checksum("crc32c", crc)


def test_a_server_without_head_is_asked_with_get(server: FileServer) -> None:
    server.files["/a"] = CONTENT
    server.head = False
    assert open_store(server.url).stat("a").size == len(CONTENT)


def test_a_server_without_ranges_still_continues_at_the_offset(server: FileServer) -> None:
    server.files["/a"] = CONTENT
    server.ranges = False
    store = open_store(server.url)
    assert b"".join(store.read(store.stat("a"), 5000)) == CONTENT[5000:]


def test_a_gz_file_stays_compressed_even_if_called_an_encoding(server: FileServer) -> None:
    server.files["/a.gz"] = gzip.compress(CONTENT)
    server.headers["/a.gz"] = {"Content-Encoding": "gzip"}
    store = open_store(server.url)
    assert b"".join(store.read(store.stat("a.gz"))) == server.files["/a.gz"]


def test_access_denied_names_the_url(server: FileServer) -> None:
    server.head = False
    server.faults["/a"] = [Fault(status=403)]
    with pytest.raises(KfrecError, match=rf"{server.url}/a: access denied \(403 Forbidden\)"):
        open_store(server.url).stat("a")


def test_a_query_in_the_prefix_stays_behind_the_name() -> None:
    assert open_store("https://host/data?sig=abc").url("a b.gz") == "https://host/data/a%20b.gz?sig=***"
