"""The key of a Dask cluster of this machine's processes, and how its connections end."""

from __future__ import annotations

import ssl
from typing import Any

from distributed.security import Security


class LocalSecurity(Security):
    """Dask's TLS, whose connections end without a goodbye, as Dask's do.

    OpenSSL takes such an end for an attack and sends an alert into the closed connection. Since OpenSSL 3.5 the broken
    pipe of that alert is reported by the next connection that is read, which is then closed, too. Dask's messages have
    their length, so that one that is cut off is noticed all the same.
    """

    def _get_tls_context(self, tls: Any, purpose: ssl.Purpose) -> ssl.SSLContext | None:
        context = super()._get_tls_context(tls, purpose)
        if context is not None:
            context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
        return context
