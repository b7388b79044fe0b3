"""MLflow's pages for one user of a machine: ``kfrec ui`` has MLflow's server run this application (``mlflow.app``)."""

from __future__ import annotations

import os
import secrets

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

# The environment variable of the token that a visitor has to show.
TOKEN = "KFREC_UI_TOKEN"
# The parameter of a link.
_PARAMETER = "token"


class OfOneUser:
    """Passes on the requests that show a token: as a browser's cookie, which a link sets, or as a bearer's."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI specifies."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        # Browsers have one set of cookies for all ports of a host.
        cookie = f"kfrec-ui-{scope['server'][1]}"
        if self._is_token(request.cookies.get(cookie, "")) or self._is_token(bearer):
            await self._app(scope, receive, send)
            return
        answer: Response = PlainTextResponse("open the link that kfrec ui has printed\n", 401)
        if self._is_token(request.query_params.get(_PARAMETER, "")):
            answer = RedirectResponse(request.url.path, 303)  # browsers keep what follows the #
            # "strict" would refuse who follows a link of another page, such as a terminal in a browser.
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
        await answer(scope, receive, send)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())


def application() -> OfOneUser:
    """MLflow's application for whoever has the token of the environment."""
    from mlflow.server.fastapi_app import app as pages

    return OfOneUser(pages, os.environ[TOKEN])
