"""KFP's v2beta1 REST API over real HTTP, as far as runs and schedules need it; made from its published description."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

Json = dict[str, Any]
_API = "/apis/v2beta1"


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Killed(Exception):
    """The client is gone: its connection is cut, and so is every later one of this client."""


class KfpApi:
    """The server's state.

    Attributes:
        pipelines, versions, experiments, runs, recurring: objects by identifier, as the API shows them.
        calls: (method, path) of every request.
        answers: statuses to answer the next requests with, before anything happens.
        lose_answer_of: (method, part of a path); the next such request is carried out and its connection cut.
        token: what a client has to bring; empty lets everyone in.
        states: a run goes through these, one at each look.
        failed_step: the step that fails where the last state is FAILED.
        before_call: called with the number of the request before it is carried out.
        violations: schedules that had two recurring runs enabled after some request.
        page_limit: largest page the server gives.
    """

    def __init__(self) -> None:
        self.pipelines: dict[str, Json] = {}
        self.versions: dict[str, Json] = {}
        self.experiments: dict[str, Json] = {}
        self.runs: dict[str, Json] = {}
        self.recurring: dict[str, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.bodies: list[Json] = []
        self.answers: list[int] = []
        self.lose_answer_of: tuple[str, str] | None = None
        self.token = ""
        self.states = ["PENDING", "RUNNING", "SUCCEEDED"]
        self.failed_step = "train"
        self.before_call: Callable[[int], None] = lambda number: None
        self.violations: list[str] = []
        self.page_limit = 100
        self.lock = threading.RLock()
        self._looks: dict[str, int] = {}
        self._clock = datetime.now(timezone.utc)

    def enabled(self, schedule: str) -> list[Json]:
        prefix = f"kfrec-{schedule}-"
        return [r for r in self.recurring.values() if r["display_name"].startswith(prefix) and r["status"] == "ENABLED"]

    @contextmanager
    def served(self) -> Iterator[str]:
        """Answers at the URL it yields."""
        api = self

        class Handler(_Handler):
            state = api

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Json:
        """Carries out one request."""
        for verb, pattern, action in _ROUTES:
            if verb == method and (found := re.fullmatch(_API + pattern, path)):
                with self.lock:
                    result = getattr(self, action)(*map(unquote, found.groups()), query=query, body=body)
                    self._check()
                return result
        raise Refusal(404, f"no such path {method} {path}")

    def _check(self) -> None:
        schedules = {r["display_name"].rpartition("-")[0] for r in self.recurring.values()}
        for name in schedules:
            if len(self.enabled(name.removeprefix("kfrec-"))) > 1:
                self.violations.append(name)

    def _now(self) -> str:
        self._clock = max(self._clock + timedelta(microseconds=1), datetime.now(timezone.utc))
        return self._clock.strftime("%Y-%m-%dT%H:%M:%SZ")  # KFP's times have whole seconds

    def healthz(self, query: Json, body: Any) -> Json:
        return {"multi_user": False}

    def list_pipelines(self, query: Json, body: Any) -> Json:
        return self._page("pipelines", list(self.pipelines.values()), query)

    def create_pipeline(self, query: Json, body: Any) -> Json:
        name = body.get("display_name") or body.get("name")
        if any(p["display_name"] == name for p in self.pipelines.values()):
            raise Refusal(409, f"Already exist error: pipeline {name}")
        return self._add(self.pipelines, "pipeline_id", {"display_name": name, "name": name,
                         "description": body.get("description", "")})  # fmt: skip

    def list_versions(self, pipeline: str, query: Json, body: Any) -> Json:
        return self._page(
            "pipeline_versions", [v for v in self.versions.values() if v["pipeline_id"] == pipeline], query
        )

    def upload_version(self, query: Json, body: Any) -> Json:
        pipeline, name = query["pipelineid"], query["name"]
        if pipeline not in self.pipelines:
            raise Refusal(404, f"pipeline {pipeline} not found")
        if any(v["pipeline_id"] == pipeline and v["display_name"] == name for v in self.versions.values()):
            raise Refusal(409, f"Already exist error: version {name}")
        documents = list(yaml.safe_load_all(body))
        spec = {"pipeline_spec": documents[0], "platform_spec": documents[1] if len(documents) > 1 else {}}
        added = {"pipeline_id": pipeline, "display_name": name, "name": name, "pipeline_spec": spec}
        return self._add(self.versions, "pipeline_version_id", added)

    def get_version(self, pipeline: str, version: str, query: Json, body: Any) -> Json:
        return self._get(self.versions, version)

    def list_experiments(self, query: Json, body: Any) -> Json:
        return self._page("experiments", list(self.experiments.values()), query)

    def create_experiment(self, query: Json, body: Any) -> Json:
        name = body["display_name"]
        if any(e["display_name"] == name for e in self.experiments.values()):
            raise Refusal(409, f"Already exist error: experiment {name}")
        return self._add(self.experiments, "experiment_id", {"display_name": name, "storage_state": "AVAILABLE"})

    def get_experiment(self, identifier: str, query: Json, body: Any) -> Json:
        return self._get(self.experiments, identifier)

    def delete_experiment(self, identifier: str, query: Json, body: Any) -> Json:
        self._get(self.experiments, identifier)
        del self.experiments[identifier]
        return {}

    def create_run(self, query: Json, body: Any) -> Json:
        self._require_version(body)
        return self._add(self.runs, "run_id", {**body, "state": self.states[0]})

    def get_run(self, identifier: str, query: Json, body: Any) -> Json:
        run = self._get(self.runs, identifier)
        look = self._looks[identifier] = self._looks.get(identifier, -1) + 1
        state = self.states[min(look, len(self.states) - 1)]
        steps = ["download", self.failed_step]
        states = {"PENDING": ["PENDING", "PENDING"], "RUNNING": ["SUCCEEDED", "RUNNING"]}.get(
            state, ["SUCCEEDED", state]
        )
        tasks = [{"display_name": name, "state": s} for name, s in zip(["root", *steps], [state, *states], strict=True)]
        error = {"error": {"code": 2, "message": "a step failed"}} if state == "FAILED" else {}
        return {**run, "state": state, "run_details": {"task_details": tasks}, **error}

    def list_recurring(self, query: Json, body: Any) -> Json:
        return self._page("recurringRuns", list(self.recurring.values()), query)

    def create_recurring(self, query: Json, body: Any) -> Json:
        self._require_version(body)
        cron = body.get("trigger", {}).get("cron_schedule", {}).get("cron", "")
        if len(cron.split()) != 6:
            raise Refusal(400, f"Invalid input error: cron {cron!r}")
        status = "ENABLED" if body.get("mode") == "ENABLE" else "DISABLED"
        return self._add(self.recurring, "recurring_run_id", {**body, "status": status})

    def switch_recurring(self, identifier: str, word: str, query: Json, body: Any) -> Json:
        self._get(self.recurring, identifier)["status"] = {"enable": "ENABLED", "disable": "DISABLED"}[word]
        return {}

    def delete_recurring(self, identifier: str, query: Json, body: Any) -> Json:
        self._get(self.recurring, identifier)
        del self.recurring[identifier]
        return {}

    def _require_version(self, body: Json) -> None:
        reference = body.get("pipeline_version_reference") or {}
        if reference.get("pipeline_version_id") not in self.versions:
            raise Refusal(404, "pipeline version not found")

    def _add(self, kind: dict[str, Json], key: str, body: Json) -> Json:
        identifier = str(uuid.uuid4())
        kind[identifier] = {key: identifier, "created_at": self._now(), **body}
        return kind[identifier]

    def _get(self, kind: dict[str, Json], identifier: str) -> Json:
        if identifier not in kind:
            raise Refusal(404, f"{identifier} not found")
        return kind[identifier]

    def _page(self, name: str, items: list[Json], query: Json) -> Json:
        for predicate in json.loads(query.get("filter") or "{}").get("predicates", ()):
            key = {"name": "display_name"}.get(predicate["key"], predicate["key"])
            items = [item for item in items if item[key] == predicate["string_value" if "string_value" in predicate else "stringValue"]]  # fmt: skip # noqa: E501
        first = int(query.get("page_token") or 0)
        size = min(int(query.get("page_size") or 20), self.page_limit)
        more = {"next_page_token": str(first + size)} if first + size < len(items) else {}
        return {name: items[first : first + size], "total_size": len(items), **more}


_ROUTES = [
    ("GET", r"/healthz", "healthz"),
    ("GET", r"/pipelines", "list_pipelines"),
    ("POST", r"/pipelines", "create_pipeline"),
    ("POST", r"/pipelines/upload_version", "upload_version"),
    ("GET", r"/pipelines/([^/]+)/versions", "list_versions"),
    ("GET", r"/pipelines/([^/]+)/versions/([^/]+)", "get_version"),
    ("GET", r"/experiments", "list_experiments"),
    ("POST", r"/experiments", "create_experiment"),
    ("GET", r"/experiments/([^/:]+)", "get_experiment"),
    ("DELETE", r"/experiments/([^/:]+)", "delete_experiment"),
    ("POST", r"/runs", "create_run"),
    ("GET", r"/runs/([^/:]+)", "get_run"),
    ("GET", r"/recurringruns", "list_recurring"),
    ("POST", r"/recurringruns", "create_recurring"),
    ("POST", r"/recurringruns/([^/:]+):(enable|disable)", "switch_recurring"),
    ("DELETE", r"/recurringruns/([^/:]+)", "delete_recurring"),
]


class _Handler(BaseHTTPRequestHandler):
    state: KfpApi
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True

    def _any(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        state = self.state
        try:
            state.before_call(len(state.calls))
        except Killed:
            self._cut()
            return
        state.calls.append((self.command, parts.path))
        try:
            if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
                raise Refusal(401, "Unauthenticated")
            if state.answers:
                raise Refusal(state.answers.pop(0), "as the test asked for")
            body = self._uploaded(raw) if parts.path.endswith("upload_version") else json.loads(raw or b"null")
            state.bodies.append(body)
            answer = state.answer(self.command, parts.path, query, body)
        except Refusal as refusal:
            self._send(refusal.status, {"error": refusal.message, "code": refusal.status, "message": refusal.message})
            return
        lost = state.lose_answer_of
        if lost and lost[0] == self.command and lost[1] in parts.path:
            state.lose_answer_of = None
            self._cut()
            return
        self._send(200, answer)

    do_GET = do_POST = do_DELETE = _any

    def _uploaded(self, raw: bytes) -> str:
        """The file in a multipart form."""
        boundary = self.headers["Content-Type"].partition("boundary=")[2].strip('"').encode()
        for part in raw.split(b"--" + boundary):
            head, _, content = part.partition(b"\r\n\r\n")
            if b'name="uploadfile"' in head:
                return content.removesuffix(b"\r\n").decode()
        raise Refusal(400, "no file")

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
