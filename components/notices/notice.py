"""A notice of a run's outcome, as JSON and as text, without passwords; sent where environment variables say.

It goes to a webhook and by mail. The body of a webhook is signed with HMAC-SHA256, RFC 2104, over the time and the
body, so that a receiver can tell who has sent it, and that it is not an old one sent again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import re
import smtplib
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

from components.errors import KfrecError
from components.secrets import HIDDEN, without_password

# Outcomes; stopped is a run that a person or the system has ended.
FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
# Last lines of a log in a notice, and the characters of each.
_LINES, _LONGEST = 20, 500


# Environment variables whose values are in no notice, unless they are so short that they may be words.
_SECRET, _SHORTEST = re.compile(r"KEY|SECRET|PASSWORD|TOKEN|CREDENTIAL|^KFREC_WEBHOOK$|^KFREC_SMTP$"), 6
# Webhook, the key that signs for it, the mail server, the receivers of mail, and its sender.
WEBHOOK, KEY, SMTP, MAIL_TO, MAIL_FROM = VARIABLES = (
    "KFREC_WEBHOOK", "KFREC_WEBHOOK_KEY", "KFREC_SMTP", "KFREC_MAIL_TO", "KFREC_MAIL_FROM",
)  # fmt: skip
TIMESTAMP, SIGNATURE = "X-Kfrec-Timestamp", "X-Kfrec-Signature"
# Seconds for a server to answer, tries, and the wait before the second one.
_TIMEOUT, _TRIES, _WAIT = 10.0, 3, 1.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Notice:
    """What is told of a run.

    Attributes:
        run: its name, or its id in KFP.
        pipeline: such as "training of sim".
        outcome: one of FINISHED, FAILED and STOPPED.
        message: the error, or what the run came to, in a line.
        step: that failed; empty if none did.
        log: last lines of the failed step's log.
        registered: ``model``, ``version``, ``alias`` and ``reason`` of the gate's decision; empty without one.
        metrics: of the test split, by name.
        warnings: such as columns that drift, a line each.
        link: where to look further; empty if unknown.
    """

    run: str
    pipeline: str
    outcome: str
    message: str = ""
    step: str = ""
    log: Sequence[str] = ()
    registered: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    link: str = ""
    time: str = field(default_factory=_now)

    @property
    def title(self) -> str:
        """One line."""
        at = f" in the step {self.step}" if self.step else ""
        return f"kfrec: {self.pipeline}, run {self.run} {self.outcome}{at}"

    def to_dict(self) -> dict[str, Any]:
        shown = dataclasses.replace(self, log=[line[:_LONGEST] for line in self.log][-_LINES:])
        body: dict[str, Any] = _safe({"title": self.title, **dataclasses.asdict(shown)})
        return body

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def to_text(self) -> str:
        """For people."""
        body = self.to_dict()
        registered = body["registered"]
        lines = [body["title"], body["message"]]
        if registered:
            lines.append(f"{registered['model']} version {registered['version']}, {registered['alias']}")
            lines.append(registered["reason"])
        lines += [f"{name} {value:.4f}" for name, value in body["metrics"].items() if isinstance(value, float)]
        lines += [f"warning: {line}" for line in body["warnings"]]
        lines += [body["link"], *(["", "Last lines of its log:", *body["log"]] if body["log"] else [])]
        return "\n".join([lines[0], *(line for line in lines[1:] if line), body["time"]]) + "\n"


def _safe(value: Any) -> Any:
    """The same without passwords in its texts, and without the values of variables that hold one."""
    if isinstance(value, str):
        for name, secret in os.environ.items():
            if _SECRET.search(name) and len(secret) >= _SHORTEST:
                value = value.replace(secret, HIDDEN)
        return without_password(value)
    if isinstance(value, Mapping):
        return {name: _safe(each) for name, each in value.items()}
    return [_safe(each) for each in value] if isinstance(value, list | tuple) else value


def tell(notice: Notice) -> None:
    """Sends a notice where the environment says; one that cannot be sent is a line on standard error, no failure."""
    for name, send in ((WEBHOOK, _to_webhook), (SMTP, _by_mail)):
        if address := os.environ.get(name, "").strip():
            try:
                _trying(lambda: send(address, notice))  # noqa: B023
            except Exception as error:
                # A webhook's path is often a password, so the address is not told.
                said = " ".join(without_password(str(error)).split())
                print(f"notice: not sent to {name} ({said}); correct it", file=sys.stderr, flush=True)


def signature(key: str, timestamp: str, body: bytes) -> str:
    """The value of the header SIGNATURE.

    Args:
        key: of KEY.
        timestamp: value of the header TIMESTAMP, seconds since 1970.
    """
    return f"sha256={hmac.new(key.encode(), f'{timestamp}.'.encode() + body, hashlib.sha256).hexdigest()}"


class _Refused(Exception):
    """An answer that another try would get again."""


def _trying(send: Callable[[], None]) -> None:
    for left in reversed(range(_TRIES)):
        try:
            return send()
        except (_Refused, KfrecError):
            raise
        except Exception:
            if not left:
                raise
            time.sleep(_WAIT * 2 ** (_TRIES - 1 - left))


def _to_webhook(url: str, notice: Notice) -> None:
    import requests

    from components.storage.blocked import session

    if urlsplit(url).scheme not in ("http", "https"):
        raise KfrecError("give an http:// or https:// URL")
    body, now = notice.to_json().encode(), str(int(time.time()))
    headers: Mapping[str, str] = {"Content-Type": "application/json", TIMESTAMP: now}
    if key := os.environ.get(KEY, ""):
        headers = {**headers, SIGNATURE: signature(key, now, body)}
    try:
        answer = session().post(url, data=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False)
    except requests.RequestException as error:
        raise OSError(f"no answer: {type(error).__name__}") from None
    if answer.status_code >= 500:
        raise OSError(f"it answered {answer.status_code}")
    if not answer.ok or answer.is_redirect:
        raise _Refused(f"it answered {answer.status_code}")


def _by_mail(url: str, notice: Notice) -> None:
    server, receivers = urlsplit(url), os.environ.get(MAIL_TO, "").strip()
    if server.scheme not in ("smtp", "smtps") or not server.hostname:
        raise KfrecError("give smtp://host:port, or smtps:// for a server that begins with TLS")
    if not receivers:
        raise KfrecError(f"set {MAIL_TO} to the addresses that get it, separated by commas")
    mail = EmailMessage()
    mail["Subject"], mail["To"] = notice.title, receivers
    mail["From"] = os.environ.get(MAIL_FROM, "") or receivers.partition(",")[0]
    mail.set_content(notice.to_text())
    tls = ssl.create_default_context()
    if server.scheme == "smtps":
        opened: smtplib.SMTP = smtplib.SMTP_SSL(server.hostname, server.port or 465, timeout=_TIMEOUT, context=tls)
    else:
        opened = smtplib.SMTP(server.hostname, server.port or 25, timeout=_TIMEOUT)
    with opened as connection:
        is_private = server.scheme == "smtps"
        if not is_private:
            connection.ehlo()
            if is_private := connection.has_extn("starttls"):
                connection.starttls(context=tls)
        if server.username:
            if not is_private:
                raise KfrecError("it offers no TLS, so the password is not sent; use a server with TLS")
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(mail)
