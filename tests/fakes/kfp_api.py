"""The part of KFP's v2beta1 REST API for runs, over real HTTP; follows its published description."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.handler import serving
from tests.fakes.kfp_http import Handler, Json, Refusal

__all__ = ["Json", "KfpApi", "Refusal"]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORKFLOW = "kfrec-sim-training-x7k2p"
# Resource and verb of a SubjectAccessReview before each request, in the group pipelines.kubeflow.org.
_RIGHTS = {
    "list_pipelines": ("pipelines", "list"),
    "create_pipeline": ("pipelines", "create"),
    "list_versions": ("pipelines", "list"),
    "upload_version": ("pipelines", "create"),
    "list_experiments": ("experiments", "list"),
    "create_experiment": ("experiments", "create"),
    "list_runs": ("runs", "list"),
    "create_run": ("runs", "create"),
    "get_run": ("runs", "get"),
    "get_run_v1": ("runs", "get"),
    "read_log": ("runs", "readLog"),
}


class KfpApi:
    """The server's state.

    Attributes:
        pipelines, versions, experiments, runs: objects by identifier, as the API shows them.
        answered: (method, path, status, answer) of every request.
        version: that the server reports; "unknown" if its image was built without one.
        pipeline_store: "database", or "kubernetes", where pipelines and their versions are objects of the cluster;
            empty before 2.14, whose health response does not say.
        multi_user: whether every experiment and run must belong to a user.
        answers: statuses to answer the next requests with, before anything happens.
        lose_answer_of: (method, part of a path); the next such request is carried out and its connection cut.
        token: that a client must send; empty admits every client.
        states: of a run, one per poll.
        failed_step: the step that fails if the last state is FAILED.
        task_message: of the failed step's pod; empty shows none.
        log: of the failed step's pod.
        argo: what Argo says of nodes of a run's workflow, by the node's path: its phase and its message. Only v1beta1
            shows it.
        template: of a pod, which its name has in the list of tasks; empty lists the node's name, as links always do.
        rights: (resource, verb) that the caller has; None is every right. Only a KFP of several users asks for them.
        allowed_accounts: service accounts that runs may have; None is any, as before KFP 2.18.
        before_call: called with method and path of each request before it is carried out.
        page_limit: largest page the server gives.
    """

    def __init__(self) -> None:
        self.pipelines: dict[str, Json] = {}
        self.versions: dict[str, Json] = {}
        self.experiments: dict[str, Json] = {}
        self.runs: dict[str, Json] = {}
        self.answered: list[tuple[str, str, int, Json]] = []
        self.version = "2.17.0"
        self.pipeline_store = "database"
        self.multi_user = False
        self.answers: list[int] = []
        self.lose_answer_of: tuple[str, str] | None = None
        self.token = ""
        self.states = ["PENDING", "RUNNING", "SUCCEEDED"]
        self.failed_step = "train"
        self.task_message = self.log = self.template = ""
        self.argo: dict[str, tuple[str, str]] = {}
        self.rights: set[tuple[str, str]] | None = None
        self.allowed_accounts: set[str] | None = None
        self.before_call: Callable[[str, str], None] = lambda method, path: None
        self.page_limit = 100
        self._lock = threading.RLock()
        self._looks: dict[str, int] = {}
        self._born: dict[str, int] = {}

    def served(
        self, address: str = "127.0.0.1", port: int = 0, certificate: Path | None = None
    ) -> AbstractContextManager[str]:
        """Answers at the URL it yields."""
        return serving(type("HandlerOfApi", (Handler,), {"api": self}), address, port, certificate)

    def carry_out(self, action: str, *identifiers: str, query: Json, body: Any) -> Json:
        """Carries out one request, alone; its answer is a copy."""
        with self._lock:
            self._require_right(*_RIGHTS.get(action, ("", "")))
            result = getattr(self, action)(*identifiers, query=query, body=body)
            return json.loads(json.dumps(result))

    def healthz(self, query: Json, body: Any) -> Json:
        said = {"commit_sha": "unknown", "tag_name": self.version}
        stored = {"pipeline_store": self.pipeline_store} if self.pipeline_store else {}
        return {**said, "multi_user": self.multi_user, **stored}

    def kubectl_apply(self, manifests: str) -> None:
        """Applies pipelines and versions as Kubernetes objects, which KFP shows if it stores them so."""
        assert self.pipeline_store == "kubernetes"
        for body in yaml.load_all(manifests, _LOADER):
            name, spec = body["metadata"]["name"], body["spec"]
            shown = {"display_name": spec.get("displayName") or name, "name": name, "namespace": ""}
            if body["kind"] == "Pipeline":
                self._add(self.pipelines, "pipeline_id", shown)
            else:
                (owner,) = (key for key, found in self.pipelines.items() if found["name"] == spec["pipelineName"])
                spec = {"pipeline_spec": spec["pipelineSpec"], "platform_spec": spec.get("platformSpec", {})}
                del shown["namespace"]
                self._add(
                    self.versions,
                    "pipeline_version_id",
                    {**shown, "pipeline_id": owner, "pipeline_spec": spec},
                )

    def list_pipelines(self, query: Json, body: Any) -> Json:
        # Without a namespace the shared ones, as in KFP, where every user sees those and may change none.
        space = query.get("namespace") or ""
        return self._page("pipelines", {k: p for k, p in self.pipelines.items() if p["namespace"] == space}, query)

    def create_pipeline(self, query: Json, body: Any) -> Json:
        name, space = body.get("display_name") or body.get("name"), body.get("namespace") or ""
        self._refuse_twice(self.pipelines, "pipeline", display_name=name, namespace=space)
        return self._add(self.pipelines, "pipeline_id", {"display_name": name, "name": name, "namespace": space,
                         "description": body.get("description", "")})  # fmt: skip

    def list_versions(self, pipeline: str, query: Json, body: Any) -> Json:
        return self._page("pipeline_versions", self.versions, query, pipeline_id=pipeline)

    def upload_version(self, query: Json, body: str) -> Json:
        pipeline, name = query["pipelineid"], query["name"]
        owner = self._get(self.pipelines, pipeline)
        self._refuse_twice(self.versions, "version", pipeline_id=pipeline, display_name=name)
        # The object of an uploaded version is named after both, and two objects cannot share a name.
        taken = {version["name"] for version in self.versions.values()}
        if self.pipeline_store == "kubernetes" and f"{owner['name']}-{name}" in taken:
            raise Refusal(409, f"Already exist error: Failed to create a new pipeline version. The name {name} already "
                               "exists. Please specify a new name")  # fmt: skip
        documents = list(yaml.load_all(body, _LOADER))
        spec = {"pipeline_spec": documents[0], "platform_spec": documents[1] if len(documents) > 1 else {}}
        return self._add(self.versions, "pipeline_version_id", {
            "pipeline_id": pipeline, "name": name, "display_name": name, "pipeline_spec": spec,
        })  # fmt: skip

    def list_experiments(self, query: Json, body: Any) -> Json:
        return self._page("experiments", self.experiments, query, namespace=self._namespace(query))

    def create_experiment(self, query: Json, body: Any) -> Json:
        space, name = self._namespace(body), body["display_name"]
        self._refuse_twice(self.experiments, "experiment", display_name=name, namespace=space)
        return self._add(self.experiments, "experiment_id", {"display_name": name, "namespace": space,
                         "description": body.get("description") or "", "storage_state": "AVAILABLE"})  # fmt: skip

    def list_runs(self, query: Json, body: Any) -> Json:
        runs = self.runs
        if not query.get("experiment_id") and (space := self._namespace(query)):
            own = {key for key, found in self.experiments.items() if found["namespace"] == space}
            runs = {key: run for key, run in runs.items() if run["experiment_id"] in own}
        return self._page("runs", runs, query, experiment_id=query.get("experiment_id"))

    def create_run(self, query: Json, body: Any) -> Json:
        self._require_version(body)
        self._require_account(body.get("service_account"))
        body["experiment_id"] = self._get(self.experiments, body["experiment_id"])["experiment_id"]
        return self._add(self.runs, "run_id", {**body, "state": self.states[0]})

    def get_run(self, identifier: str, query: Json, body: Any) -> Json:
        run = self._get(self.runs, identifier)
        look = self._looks[identifier] = self._looks.get(identifier, -1) + 1
        state = self.states[min(look, len(self.states) - 1)]
        states = {"PENDING": ["PENDING", "PENDING"], "RUNNING": ["SUCCEEDED", "RUNNING"]}.get(
            state, ["SUCCEEDED", state]
        )
        error = {"error": {"code": 2, "message": "a step failed"}} if state == "FAILED" else {}
        run.update({"state": state, **error})
        tasks = [_node("root", state, "")]
        for at, (step, of_step) in enumerate(zip(["download", self.failed_step], states, strict=True)):
            tasks += _nodes_of(step, of_step, self.task_message, 10 * at, self.template)
        return {**run, "run_details": {"task_details": tasks}}

    def get_run_v1(self, identifier: str, query: Json, body: Any) -> Json:
        """A run as in v1beta1, with its workflow as a text."""
        run = self._get(self.runs, identifier)
        nodes = {
            f"{_WORKFLOW}-{number}": {"name": f"{_WORKFLOW}.{path}", "phase": phase, "message": message}
            for number, (path, (phase, message)) in enumerate(self.argo.items())
        }
        started = {f"{_WORKFLOW}-root": {"name": _WORKFLOW, "phase": "Running"}}  # a node without a message has none
        workflow = {"metadata": {"name": _WORKFLOW}, "status": {"phase": "Running", "nodes": {**started, **nodes}}}
        runtime = {"workflow_manifest": json.dumps(workflow)} if self.argo else {}
        return {"run": {"id": identifier, "name": run["display_name"]}, "pipeline_runtime": runtime}

    def read_log(self, run: str, pod: str, query: Json, body: Any) -> str:
        """Argo names a pod by its node and its template."""
        self._get(self.runs, run)
        if pod != f"{_WORKFLOW}-retry-system-container-impl-15" or not self.log:
            raise Refusal(500, f'pods "{pod}" not found')
        return self.log

    def _namespace(self, body: Json) -> str:
        space = body.get("namespace") or ""
        if self.multi_user and not space:
            raise Refusal(400, "Invalid input error: in multi-user mode a request must have a namespace")
        if space and not self.multi_user:
            raise Refusal(400, "Invalid input error: in single-user mode a request cannot have a namespace")
        return str(space)

    def _require_right(self, resource: str, verb: str) -> None:
        if self.multi_user and resource and self.rights is not None and (resource, verb) not in self.rights:
            raise Refusal(403, f"PermissionDenied: User 'ann' is not authorized (Verb:{verb} Resource:{resource})")

    def _require_account(self, account: str | None) -> None:
        if account and self.allowed_accounts is not None and account not in self.allowed_accounts:
            raise Refusal(403, f"PermissionDenied: service account {account} is not in the allowed list")
        if account and self.multi_user:
            self._require_right(f"serviceaccounts/{account}", "use")

    def _require_version(self, body: Json) -> None:
        reference = body.get("pipeline_version_reference") or {}
        if reference.get("pipeline_version_id") not in self.versions:
            raise Refusal(404, "pipeline version not found")

    def _refuse_twice(self, kind: dict[str, Json], what: str, **fields: Any) -> None:
        if any(all(item.get(key) == value for key, value in fields.items()) for item in kind.values()):
            raise Refusal(409, f"Already exist error: {what} {fields['display_name']}")

    def _require_room(self, body: Json) -> None:
        """KFP's tables have columns of these lengths."""
        for key, limit in (("display_name", 191), ("name", 191), ("description", 255)):
            if len(body.get(key) or "") > limit:
                raise Refusal(
                    500, f"InternalServerError: Error 1406 (22001): Data too long for column '{key}' at row 1"
                )

    def _add(self, kind: dict[str, Json], key: str, body: Json) -> Json:
        identifier = str(uuid.uuid4())
        self._born[identifier] = len(self._born)
        self._require_room(body)
        kind[identifier] = {key: identifier, "created_at": _shown_time(datetime.now(UTC)), **body}
        return kind[identifier]

    def _get(self, kind: dict[str, Json], identifier: str) -> Json:
        if identifier not in kind:
            raise Refusal(404, f"ResourceNotFoundError: {identifier} not found")
        return kind[identifier]

    def _page(self, name: str, kind: dict[str, Json], query: Json, **wanted: str | None) -> Json:
        """A page, which begins after the one before ended, whatever has come and gone in between."""
        if token := query.get("page_token"):
            key, down, after, condition = json.loads(base64.urlsafe_b64decode(token))
        else:
            key, _, way = (query.get("sort_by") or "created_at asc").partition(" ")
            down, after, condition = way == "desc", None, query.get("filter") or "{}"
        predicates = json.loads(condition).get("predicates", ())
        rows = [([item.get(key), self._born.get(identifier, 0)], item) for identifier, item in kind.items()
                if all(not value or item.get(field) == value for field, value in wanted.items())
                and all(_holds(predicate, item) for predicate in predicates)]  # fmt: skip
        rows.sort(key=lambda row: row[0], reverse=down)
        rest = [row for row in rows if after is None or (row[0] < after if down else row[0] > after)]
        size = min(int(query.get("page_size") or 20), self.page_limit)
        more = {}
        if len(rest) > size:
            token = json.dumps([key, down, rest[size - 1][0], condition])
            more = {"next_page_token": base64.urlsafe_b64encode(token.encode()).decode()}
        return {name: [item for _, item in rest[:size]], "total_size": len(rows), **more}


def _nodes_of(step: str, state: str, message: str, number: int, template: str) -> list[Json]:
    """What KFP 2.17 lists of a step: each node of the workflow, some without name and state."""
    failed = {"error": {"code": 2, "message": message}} if message and state == "FAILED" else {}
    ids = [f"{_WORKFLOW}-{number + each}" for each in range(6)]
    pods = [f"{_WORKFLOW}-{template}{number + each}" for each in range(6)]
    return [
        _node(f"{step}-driver", "SUCCEEDED", pods[1]),
        _node(step, state, pods[2], ids[1], ids[3]),
        # The first attempt ends before the step does, which is retried.
        _node(f"{step}(0)", "FAILED" if state != "PENDING" else state, pods[3], ids[4], ids[5]),
        {"task_id": str(uuid.uuid4()), "pod_name": pods[4]},
        {**_node("executor(0)", state, pods[5]), **failed},
    ]


def _node(name: str, state: str, pod: str, *children: str) -> Json:
    below = {"child_tasks": [{"pod_name": child} for child in children]} if children else {}
    # An end that is not known is 1970.
    end = "2026-11-24T02:01:15Z" if state in ("SUCCEEDED", "FAILED") else "1970-01-01T00:00:00Z"
    times = {"start_time": "2026-11-24T02:00:00Z", "end_time": end}
    return {"task_id": str(uuid.uuid4()), "display_name": name, "state": state, "pod_name": pod, **times, **below}


def _shown_time(moment: datetime) -> str:
    """KFP's times have whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _holds(predicate: Json, item: Json) -> bool:
    value, wanted = item.get(predicate["key"]), predicate.get("string_value", predicate.get("stringValue"))
    if predicate["operation"] == "IS_SUBSTRING":
        return str(wanted).lower() in str(value).lower()
    # kfp.Client sends the operation as a number, everyone else as a name.
    if predicate["operation"] not in (1, "EQUALS"):
        raise Refusal(400, f"Invalid input error: the stand-in knows no operation {predicate['operation']}")
    return bool(value == wanted)
