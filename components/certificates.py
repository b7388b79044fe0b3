"""Server certificates that a client refuses."""

from __future__ import annotations

import re

_REASON = re.compile(r"certificate verify failed: (.*?)(?: \(_ssl|['\"]|$)")
_UNTRUSTED = ("self-signed", "self signed", "unable to get")
_OF_ANOTHER = "mismatch"
_OUT_OF_DATE = ("expired", "not yet valid")


def certificate_problem(error: BaseException) -> str:
    """What is wrong with a server's certificate, and the remedy; empty if the error is of another kind.

    From Python 3.13 on a client checks certificates strictly by RFC 5280: a private authority's may lack an extension
    that earlier versions did not ask for.

    Args:
        error: of requests, urllib3, botocore or MLflow, whose text holds OpenSSL's reason.
    """
    found = _REASON.search(str(error))
    if not found:
        return ""
    reason = found[1]
    if any(word in reason for word in _UNTRUSTED):
        return "its certificate is not trusted; set REQUESTS_CA_BUNDLE to the file of its certificate authority"
    if _OF_ANOTHER in reason:
        return f"its certificate is of another host ({reason}); name the host as the certificate does"
    if any(word in reason for word in _OUT_OF_DATE):
        return f"{reason}; renew its certificate, or set the clock of this machine"
    return (
        f"its certificate is refused ({reason}); renew it and that of its authority with the extensions of RFC 5280 "
        "(keyUsage, subjectKeyIdentifier, authorityKeyIdentifier), or run kfrec on Python 3.12, which does not ask for "
        "them"
    )
