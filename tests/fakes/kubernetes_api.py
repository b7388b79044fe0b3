"""A Kubernetes API over real HTTP, as far as MPIJobs need it: pods, logs, events, watches, faults."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.handler import QuietHandler, serving
from tests.fakes.kubernetes_objects import REVIEWS, KubernetesObjects

Json = dict[str, Any]
NAMESPACE = "kubeflow"
JOBS = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
JOB_LABEL = "training.kubeflow.org/job-name"
CORE = f"/api/v1/namespaces/{NAMESPACE}"


def now() -> str:
    """RFC 3339 with nanoseconds, as the kubelet stamps log lines."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + f"{time.monotonic_ns() % 1000:03d}Z"


class KubernetesApi:
    """The API's state; every change goes through it and wakes the watches.

    Attributes:
        jobs: MPIJobs by name; one that is deleted stays, with its pods, for as long as the pods take to end.
        workflows: Argo's Workflows by name.
        pods: by name, in the order of their creation.
        logs: pod name to its lines, each after its timestamp.
        finished_logs: pods whose logs have ended.
        events: events, newest last.
        requests: (method, path without its query) of every request that arrived.
        down: while set, connections are closed without an answer.
        answers: statuses to answer the next requests with, before anything else happens.
        unanswered: methods whose next request is carried out and never answered, one entry a request.
        forbidden: what the service account may not do: read events, pods, log or workflows, or POST or DELETE objects.
        quota: the message of a quota that refuses new jobs; empty lets them in.
        forget_before: watches from an older version get 410.
        drop_after: lines after which the next log streams break off, one number a stream.
        termination: seconds that pods take to end.
        objects: what else there is in the cluster.
        webhooks: change a job before it is created.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Json] = {}
        self.workflows: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.logs: dict[str, list[str]] = {}
        self.finished_logs: set[str] = set()
        self.events: list[Json] = []
        self.requests: list[tuple[str, str]] = []
        self.down = threading.Event()
        self.answers: list[int] = []
        self.unanswered: list[str] = []
        self.forbidden: set[str] = set()
        self.quota = ""
        self.forget_before = 0
        self.drop_after: list[int] = []
        self.termination = 0.3
        self.objects = KubernetesObjects()
        self.webhooks: list[Callable[[Json], None]] = []
        self.changed = threading.Condition()
        self._version = 1
        self._history: list[tuple[int, str, Json]] = []

    # What the operator and the tests do.

    def put_job(self, job: Json, kind: str = "MODIFIED") -> Json:
        with self.changed:
            self._version += 1
            job["metadata"]["resourceVersion"] = str(self._version)
            self._history.append((self._version, kind, deepcopy(job)))
            if kind == "DELETED":
                self.jobs.pop(job["metadata"]["name"], None)
            else:
                self.jobs[job["metadata"]["name"]] = job
            self.changed.notify_all()
            return job

    def create_job(self, body: Json) -> Json | None:
        """The job as it was created; None if its name is taken: of two clients at once, one creates it."""
        job = deepcopy(body)
        job["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        for webhook in self.webhooks:
            webhook(job)
        with self.changed:
            return None if job["metadata"]["name"] in self.jobs else self.put_job(job, "ADDED")

    def patch_job(self, name: str, metadata: Json) -> Json | None:
        """The job with other metadata; None if there is none."""
        with self.changed:
            if name not in self.jobs:
                return None
            job = deepcopy(self.jobs[name])
            job["metadata"] |= metadata
            return self.put_job(job)

    def delete_job(self, name: str) -> None:
        """Foreground: the job goes after its pods."""
        with self.changed:
            if name not in self.jobs or "deletionTimestamp" in self.jobs[name]["metadata"]:
                return
            job = deepcopy(self.jobs[name])
            job["metadata"]["deletionTimestamp"] = now()
            self.put_job(job)
        threading.Timer(self.termination, self._collect, [name]).start()

    def _collect(self, name: str) -> None:
        with self.changed:
            of_the_job = [
                pod["metadata"]["name"]
                for pod in self.pods.values()
                if pod["metadata"].get("labels", {}).get(JOB_LABEL) == name
            ]
            for pod in of_the_job:
                del self.pods[pod]
            self.put_job(self.jobs[name], "DELETED")

    def live_jobs(self) -> list[str]:
        """Names of the jobs that are not being deleted."""
        return [name for name, job in self.jobs.items() if "deletionTimestamp" not in job["metadata"]]

    def put_pod(self, pod: Json) -> None:
        with self.changed:
            pod["metadata"].setdefault("creationTimestamp", now())
            pod["metadata"].setdefault("uid", str(uuid.uuid4()))
            self.pods[pod["metadata"]["name"]] = pod
            self.logs.setdefault(pod["metadata"]["name"], [])
            self.changed.notify_all()

    def say(self, pod: str, line: str) -> None:
        with self.changed:
            self.logs[pod].append(f"{now()} {line}")
            self.changed.notify_all()

    def end_log(self, pod: str) -> None:
        with self.changed:
            self.finished_logs.add(pod)
            self.changed.notify_all()

    def event(self, about: str, reason: str, message: str, kind: str = "MPIJob") -> None:
        self.events.append({
            "metadata": {"name": f"{about}.{len(self.events)}", "namespace": NAMESPACE},
            "involvedObject": {"kind": kind, "name": about}, "reason": reason, "message": message,
        })  # fmt: skip

    # What watches ask.

    def changes_after(self, version: int, name: str, until: float) -> Iterator[tuple[str, Json]]:
        while True:
            with self.changed:
                new = [(v, k, j) for v, k, j in self._history if v > version and j["metadata"]["name"] == name]
                if not new:
                    if time.monotonic() >= until or self.down.is_set():
                        return
                    self.changed.wait(min(0.2, max(0.0, until - time.monotonic())))
                    continue
            version = new[-1][0]
            for _, kind, job in new:
                yield kind, job

    @contextmanager
    def served(self, address: str = "127.0.0.1") -> Iterator[str]:
        """Answers at the URL it yields, on this address of the machine."""
        api = self

        class Handler(_Handler):
            state = api

        with serving(Handler, address) as url:
            try:
                yield url
            finally:
                self.down.set()


def write_kubeconfig(path: Path, url: str) -> Path:
    """A kubeconfig whose one context is the server at ``url``."""
    body = {
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {"token": "test"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": NAMESPACE}}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(body))
    return path


class _Handler(QuietHandler):
    state: KubernetesApi

    def do_GET(self) -> None:
        if not self._enter():
            return
        path, query = self._path, self._query
        if (resource := _resource(path)) in self.state.forbidden:
            self._status(403, "Forbidden", f'{resource} is forbidden: User "kfrec-pipeline" cannot read it')
        elif path == JOBS and query.get("watch"):
            self._watch(query)
        elif path == JOBS:
            self._answer(200, {"kind": "List", "metadata": {}, "items": _selected(self.state.jobs, query)})
        elif path.startswith(f"{JOBS}/"):
            self._named(self.state.jobs, resource)
        elif path == f"{CORE}/pods":
            items = _selected(self.state.pods, query)
            self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
        elif path.endswith("/log"):
            self._log(path.split("/")[-2], query)
        elif path.startswith(f"{CORE}/pods/"):
            self._named(self.state.pods, "pod")
        elif path.startswith(f"{WORKFLOWS}/"):
            self._named(self.state.workflows, "workflow")
        elif path == f"{CORE}/events":
            field, _, value = query["fieldSelector"].removeprefix("involvedObject.").partition("=")
            items = [event for event in self.state.events if event["involvedObject"].get(field) == value]
            self._answer(200, {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items})
        else:
            self._answer(*self.state.objects.get(path, query))

    def do_POST(self) -> None:
        if not self._enter():
            return
        body = self._body()
        if self._path.startswith(REVIEWS):
            self._answer(*self.state.objects.review(self._path, body, self.headers.get("Impersonate-User", "")))
            return
        name, resource = body["metadata"]["name"], _resource(self._path)
        if "POST" in self.state.forbidden:
            self._status(403, "Forbidden", f'{resource} is forbidden: User "kfrec-pipeline" cannot create it')
        elif self.state.quota:
            self._status(403, "Forbidden", f'{resource} "{name}" is forbidden: {self.state.quota}')
        elif (created := self.state.create_job(body)) is not None:
            self._answer(201, created)
        else:
            self._status(409, "AlreadyExists", f'{resource} "{name}" already exists')

    def do_PATCH(self) -> None:
        if not self._enter():
            return
        body, name = self._body(), self._path.rsplit("/", 1)[1]
        if (job := self.state.patch_job(name, body["metadata"])) is not None:
            self._answer(200, job)
        else:
            self._status(404, "NotFound", "mpijob not found")

    def do_DELETE(self) -> None:
        if not self._enter():
            return
        self._body()
        name = self._path.rsplit("/", 1)[1]
        if "DELETE" in self.state.forbidden:
            self._status(403, "Forbidden", 'this is forbidden: User "kfrec-pipeline" cannot delete it')
            return
        if name not in self.state.jobs:
            self._status(404, "NotFound", f"{_resource(self._path)} not found")
            return
        self.state.delete_job(name)
        self._answer(200, {"kind": "Status", "status": "Success"})

    def _named(self, objects: dict[str, Json], kind: str) -> None:
        found = objects.get(self._path.rsplit("/", 1)[1])
        self._answer(200, found) if found else self._status(404, "NotFound", f"{kind} not found")

    def _enter(self) -> bool:
        self._path, self._query = self.asked()
        state = self.state
        if state.down.is_set():
            self.cut()
            return False
        state.requests.append((self.command, self._path))
        if state.answers:
            if self.command != "GET":
                self._body()
            self._status(state.answers.pop(0), "Trouble", "as the test asked for")
            return False
        return True

    def _body(self) -> Json:
        return json.loads(self.body() or b"{}")

    def _watch(self, query: dict[str, str]) -> None:
        version = int(query.get("resourceVersion") or 0)
        until = time.monotonic() + float(query.get("timeoutSeconds", 60))
        name = query["fieldSelector"].removeprefix("metadata.name=")
        self._begin_stream()
        if version < self.state.forget_before:
            gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
                    "message": "too old resource version"}  # fmt: skip
            self._chunk(json.dumps({"type": "ERROR", "object": gone}) + "\n")
        else:
            for kind, job in self.state.changes_after(version, name, until):
                self._chunk(json.dumps({"type": kind, "object": job}) + "\n")
        if self.state.down.is_set():
            self.cut()
        else:
            self._chunk("")

    def _log(self, pod: str, query: dict[str, str]) -> None:
        state = self.state
        if pod not in state.pods:
            self._status(404, "NotFound", f'pods "{pod}" not found')
            return
        drop = state.drop_after.pop(0) if state.drop_after and query.get("follow") == "true" else None
        since = ""
        if "sinceSeconds" in query:
            begin = time.time() - float(query["sinceSeconds"])
            since = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self._begin_stream()
        sent = 0
        position = max(0, len(state.logs[pod]) - int(query["tailLines"])) if "tailLines" in query else 0
        while True:
            with state.changed:
                lines = [line for line in state.logs[pod][position:] if line >= since]
                position = len(state.logs[pod])
                ended = pod in state.finished_logs or pod not in state.pods or query.get("follow") != "true"
                if not lines and not ended and not state.down.is_set():
                    state.changed.wait(0.2)
            for line in lines:
                if drop is not None and sent == drop:
                    self.cut()
                    return
                self._chunk(line + "\n")
                sent += 1
            if state.down.is_set():
                self.cut()
                return
            if ended and not lines:
                self._chunk("")
                return

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer(self, status: int, body: Json | str) -> None:
        if self.command in self.state.unanswered:
            self.state.unanswered.remove(self.command)
            self.state.down.wait(60)
            self.close_connection = True
            return
        if isinstance(body, str):
            self.reply(status, body.encode(), Content_Type="text/plain")
        else:
            self.reply_json(status, body)

    def _status(self, code: int, reason: str, message: str) -> None:
        self._answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
                            "message": message, "code": code})  # fmt: skip


def _resource(path: str) -> str:
    """What a path reads: mpijobs, pods, log, events or workflows."""
    kind, _, rest = path.partition(f"/namespaces/{NAMESPACE}/")[2].partition("/")
    return "log" if rest.endswith("/log") else kind


def _selected(objects: dict[str, Json], query: dict[str, str]) -> list[Json]:
    """The objects that a labelSelector names, by "label=value" and "label"."""
    terms = [term.partition("=") for term in query.get("labelSelector", "").split(",") if term]
    return [
        found
        for found in list(objects.values())
        if all(
            label in found["metadata"].get("labels", {}) and (not equals or found["metadata"]["labels"][label] == value)
            for label, equals, value in terms
        )
    ]
