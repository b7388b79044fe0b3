"""The endpoints of a model's server."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as Call
from starlette.responses import Response
from starlette.routing import Route

from components.contract import PROBABILITY
from components.errors import KfrecError
from components.protocols import inference, invocations
from components.scoring.model import NotFinite
from components.scoring.served import Answer, Request, Served
from components.scoring.served_features import ServedFeatures
from components.served_rows.entries import ListedItems, Origin, ScoredRows
from components.served_rows.log import ServedLog
from components.serving.batches import Answered, Batches
from components.serving.counters import TYPE, Counters

# Headers with the id of a request, which its answer has, too: that of proxies, and that of KServe's logger.
_ID, _ID_OF_KSERVE = "x-request-id", "ce-id"
_LONGEST_ID = 200


class Deployed:
    """A loaded model under its name, with the thread that answers for it.

    Args:
        logged_as: the model's name in the log.
    """

    def __init__(
        self, model: Served | ServedFeatures, name: str, version: str, logged_as: str, counters: Counters
    ) -> None:
        self.model, self.name, self.version, self.logged_as = model, name, version, logged_as
        self.batches = Batches(model, lambda: counters.add("kfrec_batches_total"))
        self.about = {
            "name": name,
            "versions": [version],
            "platform": "kfrec",
            "inputs": inference.described(model.takes),
            "outputs": inference.described(model.returns),
        }

    def is_of(self, parts: Mapping[str, Any]) -> bool:
        """Whether a path names this model, and no other version."""
        held = {"name": self.name, "version": self.version}
        return all(value == held[part] for part, value in parts.items())

    def entry(self, answered: Answered, request_id: str, variant: str) -> ScoredRows | ListedItems:
        """What an answer adds to the log."""
        origin = Origin(request_id, datetime.now(UTC), self.logged_as, self.version, variant)
        request, answer = answered.request, answered.answer
        if answer.owners is not None:
            return ListedItems(origin, answer.table, answer.owners)
        scores = answer.table[PROBABILITY] if PROBABILITY in answer.table.column_names else None
        return ScoredRows(origin, request.columns, scores, self.model.user, self.model.item)


@dataclass
class Serving:
    """What a server answers with.

    Attributes:
        now: what is deployed; only the thread of the event loop replaces it, so that whatever was submitted to the one
            before is answered by it.
        log: takes what was answered; None logs nothing.
        variant: of the rows of the log.
    """

    now: Deployed
    counters: Counters
    log: ServedLog | None = None
    variant: str = ""

    def switch(self, deployed: Deployed) -> None:
        """Answers with another model from now on."""
        before, self.now = self.now, deployed
        before.batches.close()
        self.counters.add("kfrec_model_switches_total")


def application(serving: Serving) -> Starlette:
    """The ASGI application with all endpoints."""

    def said(content: Callable[[], Any]) -> Callable[[Call], Awaitable[Response]]:
        async def answer(call: Call) -> Response:
            require_served(call)
            body = content()
            return Response(body if isinstance(body, bytes) else json.dumps(body).encode(), media_type=invocations.JSON)

        return answer

    def require_served(call: Call) -> None:
        if not serving.now.is_of(call.path_params):
            held = f"there is no {call.url.path}; the model is {serving.now.name}"
            raise HTTPException(404, json.dumps({"error": held}))

    async def answered(
        call: Call,
        now: Deployed,
        read: Callable[[], Request],
        write: Callable[[Answer], bytes],
        error_of: Callable[[int, str], bytes],
    ) -> Response:
        started, status = time.perf_counter(), 200
        request_id = (call.headers.get(_ID) or call.headers.get(_ID_OF_KSERVE) or uuid.uuid4().hex)[:_LONGEST_ID]
        try:
            answer = await asyncio.wrap_future(now.batches.submit(read, write))
            body = answer.body
            serving.counters.add("kfrec_rows_total", answer.request.rows)
            serving.counters.add("kfrec_unknown_ids_total", answer.answer.unknown)
            if serving.log is not None:
                serving.log.add(now.entry(answer, request_id, serving.variant))
        except Exception as error:
            status, message = _status(error)
            body = error_of(status, message)
        serving.counters.request(status, time.perf_counter() - started)
        return Response(body, status, {_ID: request_id}, media_type=invocations.JSON)

    async def invoke(call: Call) -> Response:
        body, kind = await call.body(), call.headers.get("content-type", "")
        now = serving.now
        by_column = isinstance(now.model, ServedFeatures)
        return await answered(
            call,
            now,
            lambda: now.model.request(*invocations.read(body, kind)),
            lambda answer: invocations.write(answer.table, by_column),
            invocations.write_error,
        )

    async def infer(call: Call) -> Response:
        body, found = await call.body(), dict[str, Any]()
        require_served(call)
        now = serving.now

        def read() -> Request:
            found.update(invocations.json_object(body))
            return now.model.request(*inference.given(found))

        return await answered(
            call,
            now,
            read,
            lambda answer: inference.write(answer.table, now.name, now.version, found),
            lambda status, message: json.dumps({"error": message}).encode(),
        )

    async def metrics(call: Call) -> Response:
        return Response(serving.counters.text(serving.now.name, serving.now.version), media_type=TYPE)

    served = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
    routes = [
        Route("/invocations", invoke, methods=["POST"]),
        *(Route(path, said(lambda: b"\n")) for path in ("/ping", "/health")),
        Route("/version", said(lambda: version("mlflow").encode())),
        Route("/metrics", metrics),
        Route("/v2", said(lambda: {"name": "kfrec", "version": version("kfrec"), "extensions": []})),
        Route("/v2/health/live", said(lambda: {"live": True})),
        Route("/v2/health/ready", said(lambda: {"ready": True})),
        *(Route(path, said(lambda: serving.now.about)) for path in served),
        *(Route(f"{path}/ready", said(lambda: {"name": serving.now.name, "ready": True})) for path in served),
        *(Route(f"{path}/infer", infer, methods=["POST"]) for path in served),
    ]
    return Starlette(routes=routes)


def _status(error: Exception) -> tuple[int, str]:
    if isinstance(error, KfrecError) and not isinstance(error, NotFinite):
        return 415 if isinstance(error, invocations.OtherType) else 400, str(error)
    traceback.print_exception(error, file=sys.stderr)
    return 500, str(error) if isinstance(error, NotFinite) else "the request failed; the server's log says why"
