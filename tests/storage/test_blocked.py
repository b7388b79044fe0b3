"""Places that are no source of data."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from components.errors import KfrecError
from components.storage import blocked, open_store
from components.storage.blocked import session
from tests.fakes.file_server import Fault, FileServer

FORBIDDEN = [
    "169.254.169.254",
    "169.254.1.1:80",
    "[fe80::1]",
    "[::ffff:169.254.169.254]",
    "[fd00:ec2::254]",
    "[fd00:ec2::23]",
    "[fd20:ce::254]",
    "metadata.google.internal",
    "Metadata.Google.Internal.",
    "100.100.100.200",
]


def refused(question: object) -> str:
    with pytest.raises(KfrecError, match="is a link-local or metadata address") as raised:
        question()  # type: ignore[operator]
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("host", FORBIDDEN)
def test_metadata_services_are_no_source(host: str) -> None:
    refused(lambda: open_store(f"http://{host}/latest/meta-data").stat("a"))


def test_a_redirect_to_one_is_not_followed(server: FileServer) -> None:
    server.faults["/data/a"] = [Fault(302, headers={"Location": "http://169.254.169.254/a"})] * 2
    server.head = False
    assert "169.254.169.254" in refused(lambda: open_store(f"{server.url}/data").stat("a"))


def test_a_name_that_stands_for_one_is_not_asked(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name resolves to this machine, whose peer address the check takes for a metadata service."""
    monkeypatch.setattr("components.storage.blocked._METADATA_ADDRESSES", {"127.0.0.1"})
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more))
    port = server.url.rpartition(":")[2]
    refused(lambda: open_store(f"http://data.example:{port}/data").stat("a"))
    assert server.asked == []


@pytest.mark.parametrize("host", ["169.254.169.254", "2852039166", "0xA9FEA9FE:80", "169.254.43518", "0251.0376.0.1"])
def test_an_endpoint_of_s3_is_none(host: str, s3_client: object) -> None:
    refused(lambda: open_store(f"s3://bucket/a?endpoint={host}&disableSSL=true"))


def test_an_endpoint_of_s3_whose_name_stands_for_one_is_none(
    s3_client: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("169.254.169.254", *rest, **more))
    refused(lambda: open_store("s3://bucket/a?endpoint=data.example"))


def test_file_uris_are_not_read_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("a")
    assert open_store(f"file://{tmp_path}").names() == ["a"]
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(KfrecError, match="file:// is not read on a cluster"):
        open_store(f"file://{tmp_path}")
    assert open_store(str(tmp_path)).names() == ["a"]


def test_a_name_that_leads_elsewhere_when_it_is_asked_again_gets_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: the first answer is harmless, and the connection goes to the address of the second."""
    ask = socket.getaddrinfo
    answers = iter(["127.0.0.1"])

    def asked(host: str, *args: Any, **options: Any) -> Any:
        return ask(next(answers, "127.0.0.2") if host == "rebinding.example" else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    monkeypatch.setattr(blocked, "_METADATA_ADDRESSES", {"127.0.0.2"})
    with socket.create_server(("127.0.0.2", 0)) as metadata:
        with pytest.raises(KfrecError, match=r"127\.0\.0\.2 is a link-local or metadata address"):
            session().get(f"http://rebinding.example:{metadata.getsockname()[1]}/credentials", timeout=10)
        connection, _ = metadata.accept()
        with connection:
            assert connection.recv(1) == b""
