"""Notices over real connections: a webhook's signature, mail with TLS and a password, and what is never in them."""

from __future__ import annotations

import email
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.notices import Notice, tell
from components.notices.notice import (
    KEY,
    MAIL_FROM,
    MAIL_TO,
    SIGNATURE,
    SMTP,
    TIMESTAMP,
    VARIABLES,
    WEBHOOK,
    signature,
)
from pipelines.defaults import Pipeline
from pipelines.runs.lifecycle import running
from pipelines.runs.record import RunRecord
from tests.cluster.certificates import Authority
from tests.fakes.handler import QuietHandler, answering, free_port, serving
from tests.fakes.smtp_server import mail_server

NOTICE = Notice("20261128-0100", "retraining of din", "failed", "train: out of memory", "train", ["epoch 1", "Killed"])


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[dict[str, str], bytes]]]:
    """Headers and bodies that a webhook gets; its first answer is that it is busy."""
    taken: list[tuple[dict[str, str], bytes]] = []
    asked = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.body()
            asked.append(self.path)
            if len(asked) > 1:
                taken.append((dict(self.headers), body))
            self.reply(200 if len(asked) > 1 else 503, b"")

    with serving(Handler) as url:
        monkeypatch.setenv(WEBHOOK, f"{url}/services/T0/secret-path")
        yield taken


def test_a_webhook_gets_signed_json_once_it_answers(
    hooked: list[tuple[dict[str, str], bytes]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(KEY, "a key of the receiver")
    tell(NOTICE)
    ((headers, body),) = hooked
    assert headers[SIGNATURE] == signature("a key of the receiver", headers[TIMESTAMP], body)
    found = json.loads(body)
    assert found["title"] == "kfrec: retraining of din, run 20261128-0100 failed in the step train"
    assert (found["outcome"], found["step"], found["log"]) == ("failed", "train", ["epoch 1", "Killed"])
    assert capsys.readouterr().err == ""


def test_the_signature_is_that_of_a_receiver_in_another_language() -> None:
    # printf '1764288000.{"run": "a"}' | openssl dgst -sha256 -hmac key
    assert signature("key", "1764288000", b'{"run": "a"}') == (
        "sha256=e32777e73b04d7d480c4544e79122e1d17ae1d55928451898743ba810ca338f1"
    )


def test_mail_has_the_step_and_the_last_lines_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_server() as server:
        monkeypatch.setenv(SMTP, f"smtp://127.0.0.1:{server.port}")
        monkeypatch.setenv(MAIL_TO, "ada@example.org, ops@example.org")
        monkeypatch.setenv(MAIL_FROM, "kfrec@example.org")
        tell(NOTICE)
    (mail,) = map(email.message_from_string, server.mails)
    assert (mail["To"], mail["From"]) == ("ada@example.org, ops@example.org", "kfrec@example.org")
    assert mail["Subject"] == NOTICE.title
    lines = str(mail.get_payload()).splitlines()
    assert lines[1] == "train: out of memory" and lines[-3:-1] == ["epoch 1", "Killed"]


def test_a_password_goes_to_a_mail_server_with_tls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path / "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    monkeypatch.setenv(MAIL_TO, "ada@example.org")
    with mail_server(authority.certificate("mail", "mail", hosts=["127.0.0.1"])) as server:
        monkeypatch.setenv(SMTP, f"smtp://ada:pass%40word@127.0.0.1:{server.port}")
        tell(NOTICE)
    assert server.logins == ["ada:pass@word"] and len(server.mails) == 1
    with mail_server() as server:
        monkeypatch.setenv(SMTP, f"smtp://ada:pass%40word@127.0.0.1:{server.port}")
        tell(NOTICE)
    assert not server.logins and not server.mails
    assert capsys.readouterr().err == (
        f"notice: not sent to {SMTP} (it offers no TLS, so the password is not sent; use a server with TLS); "
        "correct it\n"
    )


def test_nothing_secret_is_in_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter22")
    lines = ["signing with wJalrXUtnFEMI", "postgresql://u:pw@host/db", "s3://b/k?X-Amz-Signature=abc"]
    notice = Notice("r", "p", "failed", "login hunter22 refused", "train", lines, link="https://t:tok@h/x")
    for text in (notice.to_json(), notice.to_text()):
        assert not [word for word in ("wJalr", "hunter22", "pw@", "=abc", "tok@") if word in text]


@pytest.mark.parametrize(
    ("name", "address", "line"),
    [
        (WEBHOOK, "http://127.0.0.1:{free}/T0/secret", "no answer: ConnectionError"),
        (WEBHOOK, "{refusing}/T0/secret", "it answered 404"),
        (WEBHOOK, "http://169.254.169.254/T0/secret", "a link-local or metadata address"),
        (WEBHOOK, "ftp://host/T0/secret", "give an http:// or https:// URL"),
        (SMTP, "smtp://127.0.0.1:{free}", "Connection refused"),
        (SMTP, "mail.example.org", "give smtp://host:port"),
    ],
)
def test_what_cannot_be_sent_is_one_line_and_fails_nothing(
    name: str, address: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("components.notices.notice._WAIT", 0.0)
    monkeypatch.setenv(MAIL_TO, "ada@example.org")
    with answering(404, "") as refusing:
        monkeypatch.setenv(name, address.format(free=free_port(), refusing=refusing))
        tell(NOTICE)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"notice: not sent to {name} (") and line in said and "secret" not in said


def record(folder: Path, **values: Any) -> RunRecord:
    made = RunRecord(folder / "20261128-010000-aaaa", Pipeline(model="din"), {}, "", **values)
    made.folder.mkdir()
    return made


def test_the_end_of_a_run_is_told_with_its_decision(hooked: list[tuple[dict[str, str], bytes]], tmp_path: Path) -> None:
    run = record(tmp_path)
    with running(run):
        decided = {"model": "shop-ctr", "version": 3, "alias": "champion", "reason": "It is better."}
        body = {"parameters": {}, "registered": decided, "metrics": {"test_auc": 0.7}}
        (run.folder / "summary.json").write_text(json.dumps(body))
    ((_, sent),) = hooked
    found = json.loads(sent)
    assert (found["outcome"], found["step"], found["metrics"]) == ("finished", "", {"test_auc": 0.7})
    assert found["registered"] == decided and found["pipeline"] == "training of din"


def test_a_run_that_fails_is_told_with_its_step_and_its_log(
    hooked: list[tuple[dict[str, str], bytes]], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="no space"), running(record(tmp_path)) as output:
        output.write('{"kfrec": "started", "step": "train", "run_id": "r"}\n')
        output.write("loading\nno more space\n")
        raise OSError("no space")
    ((_, sent),) = hooked
    found = json.loads(sent)
    assert (found["outcome"], found["step"], found["log"]) == ("failed", "train", ["loading", "no more space"])


def test_trials_of_a_sweep_are_not_told(hooked: list[tuple[dict[str, str], bytes]], tmp_path: Path) -> None:
    with running(record(tmp_path, purpose="kfrec sweep file")):
        pass
    assert not hooked
