"""The way to KFP: addresses, tokens, certificates, proxies, and login pages on it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.cluster.certificates import Authority
from tests.fakes.handler import QuietHandler, serving
from tests.fakes.kfp_api import KfpApi
from tests.fakes.kfp_http import Handler


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a submit that must fail."""
    assert main(["submit", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no proxy and no certificates."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("flag", [(), ("--unless-running",)])
def test_a_login_page_behind_an_open_health_starts_nothing(
    flag: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    class Login(QuietHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/healthz"):
                self.reply_json(200, {"tag_name": "2.17.0"})
            elif self.path.startswith("/login"):
                self.reply(200, b"<html>Sign in</html>", Content_Type="text/html")
            else:
                self.reply(302, b"", Location="/login")

    with serving(Login) as url:
        assert "answers with a page that is not KFP's API" in refused(capsys, "--endpoint", url, *flag)


def test_a_token_is_taken_without_the_end_of_its_line(api: KfpApi, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.token = "secret"
    monkeypatch.setenv("KFP_TOKEN", "secret\n")
    assert main(["submit", "--endpoint", url]) == 0


@pytest.mark.parametrize("token", ["one\ntwo", "se\u20accret", "one\x00two"])
def test_what_cannot_be_a_token_is_named_and_not_shown(
    token: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(file))
    line = refused(capsys, "--endpoint", url)
    assert line.startswith(f"error: {file}: holds characters that no token has") and token not in line


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("localhost:8888", "localhost:8888: is not an address of KFP's API; write it as http://HOST:PORT"),
        ("kfp.example.org/pipeline", "is not an address of KFP's API"),
        ("https://ann:secret@kfp.example.org", "https://ann:***@kfp.example.org: holds an account"),
    ],
)
def test_an_endpoint_is_a_plain_address(endpoint: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--endpoint", endpoint)
    assert told in line and "secret" not in line


def test_a_private_authority_is_taken_from_the_environment(
    api: KfpApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path / "ca")
    with api.served(certificate=authority.certificate("kfp", "kfp", hosts=["127.0.0.1"])) as url:
        assert "its certificate is not trusted; set REQUESTS_CA_BUNDLE" in refused(capsys, "--endpoint", url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
        assert main(["submit", "--endpoint", url, "--wait", "--pause", "0.01"]) == 0


def test_an_address_without_tls_is_told_as_such(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not speak TLS; write http://" in refused(capsys, "--endpoint", url.replace("http:", "https:"))


def test_a_proxy_is_taken_from_the_environment_with_its_account(
    api: KfpApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account = f"Basic {base64.b64encode(b'ann:secret').decode()}"

    class Proxy(Handler):
        def _any(self) -> None:
            if self.headers.get("Proxy-Authorization") == account:
                super()._any()
            else:
                self.body()
                self.reply(407, json.dumps({"message": "no account"}).encode())

        do_GET = do_POST = _any

    Proxy.api = api
    with serving(Proxy) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.replace("http://", "http://ann:secret@"))
        assert main(["submit", "--endpoint", "http://kfp.invalid:8888"]) == 0
        assert len(api.runs) == 1 and "secret" not in capsys.readouterr().out
        monkeypatch.setenv("NO_PROXY", "kfp.invalid")
        assert "does not answer (ConnectionError)" in refused(capsys, "--endpoint", "http://kfp.invalid:8888")


def test_a_proxy_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    line = refused(capsys, "--endpoint", "http://kfp.invalid:8888")
    assert "its proxy does not answer; correct HTTPS_PROXY, or add the host to NO_PROXY" in line
