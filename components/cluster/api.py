"""The Kubernetes API, through the official client: single requests, and the steps' subset, which waits for the server.

``RIGHTS`` are what the steps' service account needs.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.errors import KfrecError, certificate_problem
from components.lifetime import Stopped
from components.storage import Retry, Unavailable

Json = dict[str, Any]

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TIMEOUT = (10.0, 60.0)  # to connect, to read; seconds
_BUSY = (0, 429, 500, 502, 503, 504)
_GONE = 410
RETRY = Retry(math.inf, longest_wait=15.0, seconds=900.0)


@dataclass(frozen=True)
class Right:
    """Verbs on one resource of a namespace.

    Attributes:
        group: API group; empty is the core group.
        without: effect on a training if the right is missing; empty if training is impossible without it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    without: str = ""


# manifests/base/rights.yaml grants them, and ``kfrec doctor --cluster`` checks them.
RIGHTS = (
    Right("kubeflow.org", "mpijobs", ("get", "list", "watch", "create", "patch", "delete")),
    Right("", "pods", ("get", "list"), "a lost worker may be noticed late"),
    Right("", "pods/log", ("get",), "the workers' progress is not shown"),
    Right("", "events", ("list",), "reasons why pods do not start are not shown"),
    Right("argoproj.io", "workflows", ("get",), "an MPIJob belongs to the step's pod and goes with its node"),
)


class Refused(Exception):
    """The API server rejected a request.

    Attributes:
        status: HTTP status: 403 forbidden or over quota, 404 not there, 409 already there, 422 invalid.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status, self.message = status, message


class Expired(Exception):
    """A stream cannot be resumed: 410, or the connection broke."""


class NoCluster(Exception):
    """Neither a pod nor a valid kubeconfig; the text is the client's error."""


def find_cluster() -> str:
    """Configures the client for the cluster of this pod, or else of the kubeconfig.

    Returns:
        The pod's own namespace, or that of the kubeconfig's context; may be empty.

    Raises:
        NoCluster: neither exists.
    """
    try:
        config.load_incluster_config()
        return _OWN_NAMESPACE.read_text().strip() if _OWN_NAMESPACE.is_file() else ""
    except config.ConfigException:
        try:
            file = os.environ.get("KUBECONFIG")  # the client reads the variable only at import
            config.load_kube_config(file)
            return str(config.list_kube_config_contexts(file)[1]["context"].get("namespace") or "")
        except (config.ConfigException, yaml.YAMLError, OSError, TypeError, KeyError, ValueError) as error:
            raise NoCluster(" ".join(str(error).split())) from None


class ApiServer:
    """The API server of the configured cluster, see ``find_cluster``; requests are not retried."""

    def __init__(self) -> None:
        self._client = client.ApiClient()
        self._client.configuration.retries = False
        self._client.rest_client = client.rest.RESTClientObject(self._client.configuration)
        self.host = str(self._client.configuration.host)

    def request(
        self,
        method: str,
        path: str,
        query: Json | None = None,
        body: Json | None = None,
        headers: dict[str, str] | None = None,
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> Json:
        """The JSON object in the response.

        Args:
            timeout: to connect, to read; seconds.

        Raises:
            Refused: the server rejected the request.
            HTTPError: it did not answer.
            KfrecError: the response is not a JSON object.
        """
        answer = self._call(method, path, query, body, headers, timeout, response_type="object")
        if not isinstance(answer, dict):
            raise KfrecError(f"{self.host}: answers with a page that is not the Kubernetes API, perhaps a login page")
        return answer

    def lines(self, path: str, query: Json, timeout: tuple[float, float]) -> Iterator[bytes]:
        """The lines of a response as they arrive; see ``request``."""
        rest = b""
        for block in self._call("GET", path, query, None, None, timeout, _preload_content=False).stream(65536, False):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
        if rest:
            yield rest

    def _call(
        self,
        method: str,
        path: str,
        query: Json | None,
        body: Json | None,
        headers: dict[str, str] | None,
        timeout: tuple[float, float],
        **options: Any,
    ) -> Any:
        try:
            return self._client.call_api(
                path, method, query_params=list((query or {}).items()), body=body,
                header_params={"Accept": "application/json", **(headers or {})}, auth_settings=["BearerToken"],
                _return_http_data_only=True, _request_timeout=timeout, **options,
            )  # fmt: skip
        except ApiException as error:
            message = error.reason or ""
            with suppress(ValueError):
                message = json.loads(error.body or "{}").get("message") or message
            raise Refused(error.status or 0, " ".join(message.split())) from error


@dataclass(frozen=True)
class Kind:
    """A kind of custom object.

    Attributes:
        name: such as MPIJob.
        pod_label: label of its pods; the value is the object's name.
        asked_by: the parameter that requests one, for the message that no cluster is configured.
        instead: the alternative without a cluster.
    """

    name: str
    group: str
    version: str
    plural: str
    pod_label: str
    asked_by: str
    instead: str


@dataclass
class Cluster:
    """One namespace of a cluster, and the objects of one kind there.

    Attributes:
        namespace: of the objects and their pods.
        retry: of requests to a server that does not answer.
        rights_seconds: time for which the server may forbid what it has allowed before: one that has just started
            forbids everything until it has read the roles.
    """

    kind: Kind
    namespace: str
    retry: Retry = RETRY
    rights_seconds: float = 60.0
    echo: Callable[[str], None] = print

    def __post_init__(self) -> None:
        self._server = ApiServer()
        self._url = f"the Kubernetes API at {self._server.host}"
        self._core = f"/api/v1/namespaces/{self.namespace}"
        self._objects = f"/apis/{self.kind.group}/{self.kind.version}/namespaces/{self.namespace}/{self.kind.plural}"
        self._allowed: set[tuple[str, ...]] = set()

    def create(self, body: Json) -> Json:
        """Creates an object.

        Raises:
            Refused: 409 already exists, 403 over quota or forbidden, 422 invalid.
        """
        return self._request("POST", self._objects, body=body)

    def get(self, name: str) -> Json | None:
        return self._if_there("GET", f"{self._objects}/{name}")

    def objects(self, selector: str) -> list[Json]:
        return self._list(self._objects, labelSelector=selector)

    def own(self, name: str, references: list[Json]) -> None:
        """Replaces the owners of an object."""
        body = {"metadata": {"ownerReferences": references}}
        headers = {"Content-Type": "application/merge-patch+json"}
        self._request("PATCH", f"{self._objects}/{name}", body=body, headers=headers)

    def delete(self, name: str, longest: float = math.inf) -> None:
        """Deletes an object after its pods (foreground); does nothing if it is gone already.

        Args:
            longest: seconds to wait for an unavailable API server, if fewer than those of ``retry``.
        """
        body = {"propagationPolicy": "Foreground"}
        self._if_there("DELETE", f"{self._objects}/{name}", body=body, longest=longest)

    def delete_at_the_end(self, name: str, longest: float) -> None:
        """Deletes the object of an ending step, as ``delete``; reports errors without masking the step's own."""
        try:
            try:
                self.delete(name, longest)
            except Stopped:  # raised only once
                self.delete(name, longest)
                raise
        except (Refused, KfrecError) as error:
            self.echo(
                f"{self.kind.name} {name} could not be deleted ({error}); delete it with "
                f"kubectl -n {self.namespace} delete {self.kind.name.lower()} {name}"
            )

    def changes(self, name: str, version: str, seconds: int) -> Iterator[tuple[str, Json]]:
        """Yields ("ADDED", "MODIFIED" or "DELETED", object) for changes after ``version``, for some seconds.

        Raises:
            Expired: the version is too old, or the connection broke: ``get`` the object and watch from its version.
            Refused: watching is not allowed.
        """
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": seconds}
        timeout = (_TIMEOUT[0], seconds + _TIMEOUT[0])
        for line in self._stream(self._objects, query | {"fieldSelector": f"metadata.name={name}"}, timeout):
            try:
                event = json.loads(line)
            except ValueError as error:  # a truncated line
                raise Expired from error
            if event["type"] == "ERROR":
                status = event["object"].get("code", 0)
                raise Expired if status in (*_BUSY, _GONE) else Refused(status, event["object"].get("message", ""))
            yield event["type"], event["object"]

    def pod(self, name: str) -> Json | None:
        return self._if_there("GET", f"{self._core}/pods/{name}")

    def workflow(self, name: str) -> Json | None:
        return self._if_there("GET", f"/apis/argoproj.io/v1alpha1/namespaces/{self.namespace}/workflows/{name}")

    def pods(self, name: str) -> list[Json]:
        """The pods of an object, oldest first."""
        pods = self._list(f"{self._core}/pods", labelSelector=f"{self.kind.pod_label}={name}")
        return sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))

    def events(self, name: str) -> list[Json]:
        return self._list(f"{self._core}/events", fieldSelector=f"involvedObject.name={name}")

    def log(
        self, pod: str, *, follow: bool, since_seconds: int | None = None, tail: int | None = None, container: str = ""
    ) -> Iterator[str]:
        """Lines of a pod's log, each as "timestamp text".

        Args:
            container: whose log; empty is the only one.

        Raises:
            Expired: the connection broke.
            Refused: the pod is gone or has not started.
        """
        query = {"follow": str(follow).lower(), "timestamps": "true", "sinceSeconds": since_seconds, "tailLines": tail}
        given = {name: value for name, value in query.items() if value is not None}
        given |= {"container": container} if container else {}
        for line in self._stream(f"{self._core}/pods/{pod}/log", given, _TIMEOUT):
            yield line.decode(errors="replace")

    def _stream(self, path: str, query: Json, timeout: tuple[float, float]) -> Iterator[bytes]:
        try:
            for line in self._server.lines(path, query, timeout):
                self._allowed.add(_right("GET", path))
                yield line
        except Refused as refused:
            if refused.status in (*_BUSY, _GONE) or self._was_allowed(refused, "GET", path):
                raise Expired from refused
            raise
        except HTTPError as error:
            raise Expired from error

    def _list(self, path: str, **query: str) -> list[Json]:
        items: list[Json] = self._request("GET", path, query=query)["items"]
        return items

    def _if_there(self, method: str, path: str, **options: Any) -> Json | None:
        """The response to a request for one object, or None on 404."""
        try:
            return self._request(method, path, **options)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def _request(self, method: str, path: str, longest: float = math.inf, **options: Any) -> Json:
        """Retries a request until the server answers.

        Args:
            longest: seconds to wait for it, if fewer than those of ``retry``.
            options: of ``ApiServer.request``.

        Raises:
            Refused: the server rejected the request.
            KfrecError: it did not answer in time.
        """
        started, reported = time.monotonic(), False

        def attempt() -> Json:
            nonlocal reported
            try:
                answer = self._server.request(method, path, **options)
            except Refused as refused:
                if self._was_allowed(refused, method, path) and time.monotonic() - started < self.rights_seconds:
                    reason = f"forbids what it allowed before ({refused.status})"
                elif refused.status in _BUSY:
                    reason = f"answers {refused.status}"
                else:
                    raise
            except HTTPError as error:
                if problem := certificate_problem(error):
                    raise KfrecError(f"{self._url}: {problem}") from None
                reason = f"does not answer ({type(error).__name__})"
            else:
                self._allowed.add(_right(method, path))
                if reported:
                    self.echo("the Kubernetes API answers again")
                return answer
            if not reported and time.monotonic() - started > 2 * self.retry.first_wait:
                self.echo(f"{self._url} {reason}; waiting for it")
                reported = True
            raise Unavailable(reason)

        remedy = f"a {self.kind.name} that was created may still run: run the step again to find it"
        retry = replace(self.retry, seconds=min(longest, self.retry.seconds), remedy=remedy)
        return retry.call(self._url, attempt)

    def _was_allowed(self, refused: Refused, method: str, path: str) -> bool:
        """Whether the server forbids a request of a kind that it has answered before."""
        over_quota = "exceeded quota" in refused.message
        return refused.status == 403 and not over_quota and _right(method, path) in self._allowed


def _right(method: str, path: str) -> tuple[str, ...]:
    """What a request needs a right for: the method, the resource, whether one object is named, and its subresource."""
    resource, *name_and_rest = path.rpartition("/namespaces/")[2].split("/")[1:]
    return method, resource, *("name" for _ in name_and_rest[:1]), *name_and_rest[1:]


def connect(kind: Kind, namespace: str = "", **options: Any) -> Cluster:
    """The cluster of this pod, or else of the kubeconfig.

    Args:
        namespace: empty is the pod's own, or that of the kubeconfig's context.

    Raises:
        KfrecError: no cluster is configured.
    """
    try:
        own = find_cluster()
    except NoCluster as error:
        raise KfrecError(
            f"{kind.asked_by} needs a cluster, but none is configured ({error}); run in a pod, set KUBECONFIG, or use "
            f"{kind.instead}"
        ) from None
    return Cluster(kind, namespace or own or "default", **options)
