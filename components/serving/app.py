"""The endpoints of a model's server."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as Call
from starlette.responses import Response
from starlette.routing import Route

from components.errors import KfrecError
from components.scoring.model import NotFinite
from components.scoring.served import Answer, Request, Served
from components.scoring.served_features import ServedFeatures
from components.serving import inference, invocations
from components.serving.batches import Batches
from components.serving.counters import TYPE, Counters


@dataclass
class Serving:
    """A loaded model under its name.

    Attributes:
        is_stopping: answers close their connections from then on, so that clients open others elsewhere.
    """

    model: Served | ServedFeatures
    name: str
    version: str
    counters: Counters
    is_stopping: bool = False


def application(serving: Serving) -> Starlette:
    """The ASGI application with all endpoints."""
    model, name = serving.model, serving.name
    batches = Batches(model, lambda: serving.counters.add("kfrec_batches_total"))
    about = {
        "name": name,
        "versions": [serving.version],
        "platform": "kfrec",
        "inputs": inference.described(model.takes),
        "outputs": inference.described(model.returns),
    }

    def said(content: Any) -> Callable[[Call], Awaitable[Response]]:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()

        async def answer(call: Call) -> Response:
            require_served(call)
            return Response(body, media_type=invocations.JSON)

        return answer

    def require_served(call: Call) -> None:
        held = {"name": name, "version": serving.version}
        if any(value != held[part] for part, value in call.path_params.items()):
            raise HTTPException(404, json.dumps({"error": f"there is no {call.url.path}; the model is {name}"}))

    async def answered(
        read: Callable[[], Request], write: Callable[[Answer], bytes], error_of: Callable[[int, str], bytes]
    ) -> Response:
        started, status = time.perf_counter(), 200
        try:
            answer = await asyncio.wrap_future(batches.submit(read, write))
            body = answer.body
            serving.counters.add("kfrec_rows_total", answer.rows)
            serving.counters.add("kfrec_unknown_ids_total", answer.unknown)
        except Exception as error:
            status, message = _status(error)
            body = error_of(status, message)
        serving.counters.request(status, time.perf_counter() - started)
        return Response(body, status, media_type=invocations.JSON)

    async def invoke(call: Call) -> Response:
        body, kind = await call.body(), call.headers.get("content-type", "")
        by_column = isinstance(model, ServedFeatures)
        return await answered(
            lambda: model.request(*invocations.read(body, kind)),
            lambda answer: invocations.write(answer.table, by_column),
            invocations.write_error,
        )

    async def infer(call: Call) -> Response:
        require_served(call)
        body, found = await call.body(), dict[str, Any]()

        def read() -> Request:
            found.update(invocations.json_object(body))
            return model.request(*inference.given(found))

        return await answered(
            read,
            lambda answer: inference.write(answer.table, name, serving.version, found),
            lambda status, message: json.dumps({"error": message}).encode(),
        )

    async def metrics(call: Call) -> Response:
        return Response(serving.counters.text(name, serving.version), media_type=TYPE)

    served = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
    routes = [
        Route("/invocations", invoke, methods=["POST"]),
        *(Route(path, said(b"\n")) for path in ("/ping", "/health")),
        Route("/version", said(version("mlflow").encode())),
        Route("/metrics", metrics),
        Route("/v2", said({"name": "kfrec", "version": version("kfrec"), "extensions": []})),
        Route("/v2/health/live", said({"live": True})),
        Route("/v2/health/ready", said({"ready": True})),
        *(Route(path, said(about)) for path in served),
        *(Route(f"{path}/ready", said({"name": name, "ready": True})) for path in served),
        *(Route(f"{path}/infer", infer, methods=["POST"]) for path in served),
    ]
    return Starlette(routes=routes)


def _status(error: Exception) -> tuple[int, str]:
    """The status of an error, and the line about it."""
    if isinstance(error, KfrecError) and not isinstance(error, NotFinite):
        return 415 if isinstance(error, invocations.OtherType) else 400, str(error)
    traceback.print_exception(error, file=sys.stderr)
    return 500, str(error) if isinstance(error, NotFinite) else "the request failed; the server's log says why"
