"""HTTP for the fake of KFP's API: routes, uploads, authentication, and faults."""

from __future__ import annotations

import json
import re
from email.parser import BytesParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.fakes.handler import QuietHandler

if TYPE_CHECKING:
    from tests.fakes.kfp_api import KfpApi

Json = dict[str, Any]


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


_ID = r"([^/:]+)"
ROUTES = [
    (verb, re.compile("/apis/v2beta1" + pattern), action)
    for verb, pattern, action in [
        ("GET", "/healthz", "healthz"),
        ("GET", "/pipelines", "list_pipelines"),
        ("POST", "/pipelines", "create_pipeline"),
        ("POST", "/pipelines/upload_version", "upload_version"),
        ("GET", f"/pipelines/{_ID}/versions", "list_versions"),
        ("GET", "/experiments", "list_experiments"),
        ("POST", "/experiments", "create_experiment"),
        ("GET", "/runs", "list_runs"),
        ("POST", "/runs", "create_run"),
        ("GET", f"/runs/{_ID}", "get_run"),
    ]
]
ROUTES.append(("GET", re.compile(f"/apis/v1beta1/runs/{_ID}"), "get_run_v1"))
# No part of the API's description.
ROUTES.append(("GET", re.compile(f"/apis/v1alpha1/runs/{_ID}/nodes/{_ID}/log"), "read_log"))


class Handler(QuietHandler):
    """One connection; a subclass sets ``api``."""

    api: KfpApi
    wbufsize = -1

    def _any(self) -> None:
        path, query = self.asked()
        raw = self.body()
        api = self.api
        status, answer = self._answer(path, query, raw)
        if not path.endswith("/log"):
            api.answered.append((self.command, path, status, answer))
        if _matches(api.lose_answer_of, self.command, path):
            api.lose_answer_of = None
            self.cut()
            return
        if isinstance(answer, str):
            self.reply(status, answer.encode(), Content_Type="text/plain")
        else:
            self.reply_json(status, answer)

    do_GET = do_POST = _any

    def _answer(self, path: str, query: dict[str, str], raw: bytes) -> tuple[int, Json]:
        api = self.api
        api.before_call(self.command, path)
        try:
            if api.token and self.headers.get("Authorization") != f"Bearer {api.token}":
                raise Refusal(401, "Unauthenticated: the request carries no valid token")
            if api.answers:
                status = api.answers.pop(0)
                raise Refusal(status, "as the test asked for")
            body = self._uploaded(raw) if path.endswith("/pipelines/upload_version") else json.loads(raw or b"null")
            for verb, pattern, action in ROUTES:
                if verb == self.command and (found := pattern.fullmatch(path)):
                    return 200, api.carry_out(action, *map(unquote, found.groups()), query=query, body=body)
            raise Refusal(404, f"no such path {self.command} {path}")
        except Refusal as refusal:
            code = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 503: 14}.get(refusal.status, 13)
            return refusal.status, {"code": code, "message": refusal.message, "details": []}

    def _uploaded(self, raw: bytes) -> str:
        """The file in a multipart form."""
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        for part in BytesParser().parsebytes(head + raw).walk():
            if part.get_param("name", header="content-disposition") == "uploadfile":
                content = part.get_payload(decode=True)
                assert isinstance(content, bytes)
                return content.decode()
        raise Refusal(400, "no file")


def _matches(wanted: tuple[Any, ...] | None, method: str, path: str) -> bool:
    return wanted is not None and wanted[0] == method and wanted[1] in path
