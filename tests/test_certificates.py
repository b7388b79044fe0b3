"""Certificates that clients refuse, on real connections."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from components.errors import KfrecError, certificate_problem
from components.storage.opening import open_store
from components.tracking.failures import unusable
from tests.cluster.certificates import Authority
from tests.fakes.handler import QuietHandler, serving


class _Answers(QuietHandler):
    def do_GET(self) -> None:
        self.reply(200, b"{}")

    do_HEAD = do_GET


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Authority]:
    """Makes a private authority that the environment names."""

    def made(**options: Any) -> Authority:
        found = Authority(tmp_path / "ca", **options)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(found.file))
        return found

    return made


def problem(url: str) -> str:
    with pytest.raises(requests.exceptions.SSLError) as raised:
        requests.get(url, timeout=10)
    return certificate_problem(raised.value)


def test_an_unknown_authority(authority: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(_Answers, certificate=authority().certificate("a", "a", hosts=["127.0.0.1"])) as url:
        assert requests.get(url, timeout=10).ok
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        assert "is not trusted; set REQUESTS_CA_BUNDLE" in problem(url)


def test_another_host(authority: Any) -> None:
    with serving(_Answers, certificate=authority().certificate("a", "a", hosts=["kfp.example.org"])) as url:
        assert "is of another host" in problem(url) and "name the host as the certificate does" in problem(url)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Python asks for these extensions from 3.13 on")
def test_an_extension_that_an_authority_left_out_is_named_with_the_remedy(authority: Any) -> None:
    with serving(_Answers, certificate=authority(strict=False).certificate("a", "a", hosts=["127.0.0.1"])) as url:
        told = problem(url)
        assert (
            "renew it and that of its authority with the extensions" in told
            and "Missing Authority Key Identifier" in told
        )
        with pytest.raises(KfrecError, match=rf"^{url}/file: its certificate is refused"):
            open_store(url).stat("file")


def test_an_error_of_another_kind_has_no_problem() -> None:
    assert certificate_problem(ValueError("nothing of the kind")) == ""


def test_a_tracking_server_whose_certificate_is_refused() -> None:
    error = ValueError("certificate verify failed: Missing Authority Key Identifier (_ssl.c:1032)")
    assert "MLflow at https://m: its certificate is refused (Missing Authority" in str(unusable("https://m", error))
