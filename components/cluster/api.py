"""The steps' subset of the Kubernetes API, through the official client; retries while the server is down.

``components.cluster.rights`` lists the required rights.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.certificates import certificate_problem
from components.errors import KfrecError
from components.lifetime import Stopped

T = TypeVar("T")
Json = dict[str, Any]

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TIMEOUT = (10.0, 60.0)  # to connect, to read; seconds
_BUSY = (0, 429, 500, 502, 503, 504)


class Refused(Exception):
    """The API server rejected a request.

    Attributes:
        status: HTTP status: 403 forbidden or over quota, 404 not there, 409 already there, 422 invalid.
        message: the server's message.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status, self.message = status, message


class Expired(Exception):
    """A watch cannot be resumed: 410, or the connection broke."""


@dataclass(frozen=True)
class Kind:
    """A kind of custom object.

    Attributes:
        name: such as MPIJob.
        group: API group.
        version: API version.
        plural: its name in paths.
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


@dataclass(frozen=True)
class Patience:
    """Retry budget for an unavailable API server, with exponential backoff.

    Attributes:
        longest: seconds without an answer before giving up.
        first_wait: seconds before the first retry; doubles up to longest_wait.
        longest_wait: maximum seconds between retries.
        rights: seconds for which a server may forbid what it has allowed before: one that has just started forbids
            everything until it has read the roles.
    """

    longest: float = 900.0
    first_wait: float = 0.5
    longest_wait: float = 15.0
    rights: float = 60.0


@dataclass
class Cluster:
    """One namespace of a cluster, and the objects of one kind there.

    Attributes:
        namespace: of the objects and their pods.
        patience: retry budget.
        echo: called with a line for the user.
    """

    kind: Kind
    namespace: str
    patience: Patience = field(default_factory=Patience)
    echo: Callable[[str], None] = print

    def __post_init__(self) -> None:
        api = impatient_client()
        self._host = api.configuration.host
        self._objects, self._core = client.CustomObjectsApi(api), client.CoreV1Api(api)
        self._allowed: set[tuple[str, str]] = set()

    def create(self, body: Json) -> Json:
        """Creates an object.

        Raises:
            Refused: 409 already exists, 403 over quota or forbidden, 422 invalid.
        """
        return self._asked(self._objects.create_namespaced_custom_object, *self._resource, body)

    def get(self, name: str) -> Json | None:
        """The object, or None if there is none."""
        return self._if_there(self._objects.get_namespaced_custom_object, *self._resource, name)

    def objects(self, selector: str) -> list[Json]:
        """The objects with these labels."""
        listed = self._asked(self._objects.list_namespaced_custom_object, *self._resource, label_selector=selector)
        return listed["items"]

    def own(self, name: str, references: list[Json]) -> None:
        """Replaces the owners of an object."""
        body = {"metadata": {"ownerReferences": references}}
        self._asked(self._objects.patch_namespaced_custom_object, *self._resource, name, body)

    def delete(self, name: str, longest: float | None = None) -> None:
        """Deletes an object after its pods (foreground); does nothing if it is gone already.

        Args:
            longest: seconds to wait for an unavailable API server; None is the retry budget.
        """
        options = client.V1DeleteOptions(propagation_policy="Foreground")
        delete = self._objects.delete_namespaced_custom_object
        self._if_there(delete, *self._resource, name, body=options, longest=longest)

    def delete_at_the_end(self, name: str, longest: float) -> None:
        """Deletes the object of an ending step; reports errors without masking the step's own.

        Args:
            longest: seconds to wait for an unavailable API server.
        """
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
        stream_of = self._objects.list_namespaced_custom_object
        stream = watch.Watch().stream(
            stream_of,
            *self._resource,
            field_selector=f"metadata.name={name}",
            resource_version=version,
            timeout_seconds=seconds,
            _request_timeout=(_TIMEOUT[0], seconds + _TIMEOUT[0]),
        )
        try:
            for event in stream:
                yield event["type"], event["object"]
        except ApiException as error:
            if error.status in (*_BUSY, 410) or self._was_allowed(error, stream_of, *self._resource):
                raise Expired from error
            raise refused(error) from error
        except (HTTPError, ValueError) as error:  # a truncated line is not JSON
            raise Expired from error

    def pod(self, name: str) -> Json | None:
        """Any pod, or None if there is none."""
        return self._plain(self._if_there(self._core.read_namespaced_pod, name, self.namespace))

    def workflow(self, name: str) -> Json | None:
        """An Argo Workflow, or None if there is none."""
        resource = "argoproj.io", "v1alpha1", self.namespace, "workflows"
        return self._if_there(self._objects.get_namespaced_custom_object, *resource, name)

    def pods(self, name: str) -> list[Json]:
        """The pods of an object, oldest first."""
        selector = f"{self.kind.pod_label}={name}"
        answer = self._asked(self._core.list_namespaced_pod, self.namespace, label_selector=selector)
        return sorted(self._plain(answer)["items"], key=lambda pod: pod["metadata"].get("creationTimestamp", ""))

    def events(self, name: str) -> list[Json]:
        """The events of an object."""
        return self._events(f"involvedObject.name={name}")

    def events_of(self, kind: str, name: str) -> list[Json]:
        """The events of the objects of a kind with the name prefix ``<name>-``."""
        events = self._events(f"involvedObject.kind={kind}")
        return [event for event in events if event["involvedObject"].get("name", "").startswith(f"{name}-")]

    def _events(self, selector: str) -> list[Json]:
        answer = self._asked(self._core.list_namespaced_event, self.namespace, field_selector=selector)
        return self._plain(answer)["items"]

    def _plain(self, answer: Any) -> Any:
        return self._core.api_client.sanitize_for_serialization(answer)

    def log(
        self, pod: str, *, follow: bool, since_seconds: int | None = None, tail: int | None = None
    ) -> Iterator[str]:
        """Lines of a pod's log, each as "timestamp text".

        Raises:
            Expired: the connection broke.
            Refused: the pod is gone or has not started.
        """
        options: Json = {"since_seconds": since_seconds, "tail_lines": tail}
        read = self._core.read_namespaced_pod_log
        try:
            answer = read(
                pod,
                self.namespace,
                follow=follow,
                timestamps=True,
                _preload_content=False,
                _request_timeout=_TIMEOUT,
                **{name: value for name, value in options.items() if value is not None},
            )
            self._allowed.add(_right(read))
            rest = b""
            for block in answer.stream(65536, decode_content=False):
                *lines, rest = (rest + block).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
            if rest:
                yield rest.decode(errors="replace")
        except ApiException as error:
            away = error.status in _BUSY or self._was_allowed(error, read)
            raise (Expired() if away else refused(error)) from error
        except HTTPError as error:
            raise Expired from error

    @property
    def _resource(self) -> tuple[str, str, str, str]:
        return self.kind.group, self.kind.version, self.namespace, self.kind.plural

    def _if_there(self, request: Callable[..., T], *args: Any, **options: Any) -> T | None:
        """The response to a request for one object, or None on 404."""
        try:
            return self._asked(request, *args, **options)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def _asked(self, request: Callable[..., T], *args: Any, longest: float | None = None, **options: Any) -> T:
        """Retries a request until the server answers.

        Args:
            request: method of the client.
            args: its arguments.
            longest: seconds to wait for an unavailable API server; None is the retry budget.
            options: its named arguments.

        Raises:
            Refused: the server rejected the request.
            KfrecError: the retry budget is spent.
        """
        longest = self.patience.longest if longest is None else min(longest, self.patience.longest)
        started, wait, reported = time.monotonic(), self.patience.first_wait, False
        while True:
            try:
                answer = request(*args, _request_timeout=_TIMEOUT, **options)
                self._allowed.add(_right(request, *args))
                if reported:
                    self.echo("the Kubernetes API answers again")
                return answer
            except ApiException as error:
                if self._was_allowed(error, request, *args) and time.monotonic() - started < self.patience.rights:
                    reason = f"forbids what it allowed before ({error.status})"
                elif error.status in _BUSY:
                    reason = f"answers {error.status}"
                else:
                    raise refused(error) from error
            except HTTPError as error:
                if problem := certificate_problem(error):
                    raise KfrecError(f"the Kubernetes API at {self._host}: {problem}") from None
                reason = f"does not answer ({type(error).__name__})"
            away = time.monotonic() - started
            if away > longest:
                raise KfrecError(
                    f"the Kubernetes API at {self._host} {reason} for {away:.0f} s; a {self.kind.name} that was "
                    "created may still run: run the step again to find it"
                )
            if not reported and away > 2 * self.patience.first_wait:
                self.echo(f"the Kubernetes API at {self._host} {reason}; waiting for it")
                reported = True
            time.sleep(wait)
            wait = min(2 * wait, self.patience.longest_wait)

    def _was_allowed(self, error: ApiException, request: Callable[..., Any], *args: Any) -> bool:
        """Whether the server forbids a request of a kind that it has answered before."""
        return error.status == 403 and not _over_quota(error) and _right(request, *args) in self._allowed


def _right(request: Callable[..., Any], *args: Any) -> tuple[str, str]:
    """The method, and the plural of a custom object."""
    return request.__name__, str(args[3]) if len(args) > 3 else ""


def connect(kind: Kind, namespace: str = "", **options: Any) -> Cluster:
    """The cluster of this pod, or else of the kubeconfig.

    Args:
        namespace: empty is the pod's own, or that of the kubeconfig's context.
        options: see ``Cluster``.

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


def impatient_client() -> client.ApiClient:
    """A client of the configured cluster that never retries."""
    api = client.ApiClient()
    api.configuration.retries = False
    api.rest_client = client.rest.RESTClientObject(api.configuration)
    return api


def _over_quota(error: ApiException) -> bool:
    return error.status == 403 and "exceeded quota" in refused(error).message


def refused(error: ApiException) -> Refused:
    """The API server's error response."""
    message = error.reason or ""
    with suppress(ValueError):
        message = json.loads(error.body or "{}").get("message") or message
    return Refused(error.status or 0, " ".join(message.split()))
