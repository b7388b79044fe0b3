"""Sends notices where environment variables say: to a webhook, signed, and by mail.

The body of a webhook is signed with HMAC-SHA256, RFC 2104, over the time and the body, so that a receiver can tell who
has sent it, and that it is not an old one sent again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import smtplib
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from components.errors import KfrecError
from components.notices.notice import Notice
from components.secrets import without_password

# Webhook, the key that signs for it, the mail server, the receivers of mail, and its sender.
WEBHOOK, KEY, SMTP, MAIL_TO, MAIL_FROM = VARIABLES = (
    "KFREC_WEBHOOK", "KFREC_WEBHOOK_KEY", "KFREC_SMTP", "KFREC_MAIL_TO", "KFREC_MAIL_FROM",
)  # fmt: skip
TIMESTAMP, SIGNATURE = "X-Kfrec-Timestamp", "X-Kfrec-Signature"
# Seconds for a server to answer, tries, and the wait before the second one.
_TIMEOUT, _TRIES, _WAIT = 10.0, 3, 1.0


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
