"""The input of the cluster checks, read once from Kubernetes, the settings and the environment."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from urllib3.exceptions import HTTPError

from components.cluster.api import ApiServer, Json, NoCluster, Refused, find_cluster
from components.errors import KfrecError
from components.settings_file import merge, parse_yaml, with_additions
from components.steps.catalog import LaunchParameters
from components.train.mpijob.settings import JobSettings
from pipelines.task_settings import ClusterSettings

CONFIG_MAP, SECRET = "config map", "secret"
PLURALS = {CONFIG_MAP: "configmaps", SECRET: "secrets"}
# KFP's config map with the default pipeline root, and KFP's built-in default.
LAUNCHER, ROOT = "kfp-launcher", "defaultPipelineRoot"
_KFP_ROOT = "minio://mlpipeline/v2/artifacts"
# The statuses of an API server, or of a proxy before it, that does not know the caller.
_TO_LOG_IN = (302, 401, 403)
TIMEOUT = (4.0, 20.0)  # to connect, to read; seconds
# The default namespace of KFP.
KFP_NAMESPACE = "kubeflow"
# The config map of KFP's manifests, and its key with the version.
INSTALL_CONFIG, _VERSION = "pipeline-install-config", "appVersion"
# The field of the health response that tells where pipelines are stored, and the first version that has it.
_FIELD, _SINCE = "pipeline_store", (2, 14)
# MLflow's client would retry for minutes.
_SHORT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}


class Kubernetes(ApiServer):
    """An API server."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.namespace = namespace

    def get(self, path: str, **query: str) -> Json | None:
        """The object at a path, or None if there is none.

        Raises:
            Refused: the API server rejected the request; 403 if the caller lacks a right.
            KfrecError: it did not answer.
        """
        try:
            return self._ask("GET", path, query)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def object(self, plural: str, name: str, namespace: str = "") -> Json | None:
        """An object of the core group in a namespace, by default kfrec's; see ``get``."""
        return self.get(f"/api/v1/namespaces/{namespace or self.namespace}/{plural}/{quote(name, safe='')}")

    def post(self, path: str, body: Json, headers: dict[str, str]) -> Json:
        """The API server's response to a posted object; see ``get``."""
        return self._ask("POST", path, body=body, headers=headers)

    def served(self, group: str, plural: str) -> list[str]:
        """The served versions of a resource, from API discovery; see ``get``."""
        versions = [entry["version"] for entry in (self.get(f"/apis/{group}") or {}).get("versions", ())]
        resources = {version: (self.get(f"/apis/{group}/{version}") or {}).get("resources", ()) for version in versions}
        return [version for version in versions if plural in {each["name"] for each in resources[version]}]

    def _ask(self, method: str, path: str, query: Json | None = None, **options: Any) -> Json:
        try:
            return self.request(method, path, query, timeout=TIMEOUT, **options)
        except HTTPError as error:
            raise KfrecError(f"{self.host}: does not answer ({type(error).__name__})") from None


@dataclass(frozen=True)
class Held:
    """A config map or a secret.

    Attributes:
        values: key to value; None if it does not exist or may not be read.
        refused: the API server's message if it may not be read.
    """

    kind: str
    name: str
    values: Mapping[str, str] | None
    refused: str = ""


@dataclass(frozen=True)
class Examined:
    """An installation.

    Attributes:
        kubernetes: its API; None if it does not answer.
        unanswered: reason why it does not answer.
        job_mistake: error in the settings of MPIJobs; ``job`` then holds the defaults.
        held: the config maps and secrets that the steps mount, and KFP's own config map.
        user: the namespace for KFP's API; empty in single-user KFP.
        account: service account to check the rights of; empty is the caller's own.
    """

    kubernetes: Kubernetes | None
    unanswered: str
    version: str
    settings: ClusterSettings
    job: JobSettings
    job_mistake: str
    held: tuple[Held, ...]
    endpoint: str
    user: str
    root: str
    account: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def api(self) -> Kubernetes:
        assert self.kubernetes is not None
        return self.kubernetes

    @property
    def scheme(self) -> str:
        """Scheme of the artifact store; empty if ``root`` is not a URI."""
        scheme, separator, _ = self.root.partition("://")
        return scheme if separator else ""

    @property
    def job_namespace(self) -> str:
        return self.job.namespace or self.api.namespace

    def get(self, kind: str, name: str) -> Held | None:
        return next((held for held in self.held if (held.kind, held.name) == (kind, name)), None)


def gather(
    settings: ClusterSettings,
    *,
    endpoint: str = "",
    namespace: str = "",
    root: str = "",
    account: str = "",
) -> Examined:
    """Reads the inputs of all checks; the checks report what cannot be read.

    Args:
        endpoint: of KFP's API; empty takes it from the environment or the cluster.
        namespace: of kfrec; empty is the pod's own, else that of the kubeconfig's context, else KFP's.
        root: where artifacts go; empty is KFP's default root.
    """
    kubernetes, unanswered, version = _find(namespace)
    held = tuple(_read(kubernetes, settings)) if kubernetes else ()
    environment: dict[str, str] = {}
    for each in held:
        if each.name != LAUNCHER:
            environment |= {key: value for key, value in (each.values or {}).items() if key.isupper()}
    environment |= os.environ
    launcher = next((each.values or {} for each in held if each.name == LAUNCHER), {})
    job, mistake = _job(settings, held)
    return Examined(
        kubernetes=kubernetes,
        unanswered=unanswered,
        version=version,
        settings=settings,
        job=job,
        job_mistake=mistake,
        held=held,
        endpoint=endpoint or environment.get("KFP_ENDPOINT", ""),
        user=namespace,
        root=root or launcher.get(ROOT, "") or _KFP_ROOT,
        account=account,
        environment=environment,
    )


@contextmanager
def environment_of(examined: Examined) -> Iterator[None]:
    """Sets the steps' environment variables in this process; variables that are already set win."""
    earlier = dict(os.environ)
    os.environ.update({**examined.environment, **_SHORT})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(earlier)


def _find(namespace: str) -> tuple[Kubernetes | None, str, str]:
    """The API, the reason if it is unavailable, and the version of Kubernetes."""
    try:
        own = find_cluster()
    except NoCluster as error:
        return None, f"no cluster ({error}); run in a pod, or set KUBECONFIG", ""
    kubernetes = Kubernetes(namespace or own or KFP_NAMESPACE)
    try:
        version = str((kubernetes.get("/version") or {}).get("gitVersion", "of unknown version"))
    except KfrecError as error:
        return None, f"{error}; check KUBECONFIG and the way there", ""
    except Refused as no:
        remedy = "log in to the cluster again" if no.status in _TO_LOG_IN else "try again, or check KUBECONFIG"
        return None, f"{kubernetes.host}: refused ({no}); {remedy}", ""
    return kubernetes, "", version


def _read(kubernetes: Kubernetes, settings: ClusterSettings) -> Iterator[Held]:
    names = [(CONFIG_MAP, name) for step in settings.steps.values() for name in step.config_maps]
    names += [(SECRET, name) for step in settings.steps.values() for name in step.secrets]
    for kind, name in dict.fromkeys([*names, (CONFIG_MAP, LAUNCHER)]):
        try:
            body = kubernetes.object(PLURALS[kind], name)
        except (Refused, KfrecError) as error:
            yield Held(kind, name, None, str(error))
            continue
        yield Held(kind, name, None if body is None else _values(kind, body))


def _values(kind: str, body: Mapping[str, Any]) -> dict[str, str]:
    data = body.get("data") or {}
    if kind == CONFIG_MAP:
        return dict(data)
    return {key: base64.b64decode(value).decode(errors="replace").rstrip("\r\n") for key, value in data.items()}


def _job(settings: ClusterSettings, held: tuple[Held, ...]) -> tuple[JobSettings, str]:
    """The settings of MPIJobs, from the config map that the train step mounts, and their error."""
    file = PurePosixPath(LaunchParameters().job_settings)
    mounted = settings.steps["train"].config_maps
    texts = {
        f"config map {each.name}: {name}": each.values[name]
        for each in held
        if each.kind == CONFIG_MAP and each.values and PurePosixPath(mounted.get(each.name, "")) == file.parent
        for name in with_additions(file, each.values)
    }
    try:
        return merge({source: parse_yaml(source, text) for source, text in texts.items()}, JobSettings), ""
    except KfrecError as error:
        return JobSettings(), str(error)


def kfp_version(examined: Examined, health: Mapping[str, Any]) -> tuple[str, tuple[int, int] | None]:
    """The version for the user, and the oldest one that it can be; None if nothing tells.

    Images that are built without a tag report "unknown"; then KFP's config map has it, unless it may not be read.
    """
    for tag in (str(health.get("tag_name", "")), *installed(examined, _VERSION)):
        if found := version_in(tag):
            return tag, found
    if health.get(_FIELD):
        return f"{_SINCE[0]}.{_SINCE[1]} or newer", _SINCE
    return "unknown version", None


def installed(examined: Examined, key: str) -> Iterator[str]:
    """The values of a setting of KFP's installation, in the namespaces that KFP may be in."""
    if examined.kubernetes is None:
        return
    host = urlsplit(examined.endpoint).hostname or ""
    for namespace in dict.fromkeys([*host.split(".")[1:2], examined.api.namespace, KFP_NAMESPACE]):
        try:
            found = examined.api.object(PLURALS[CONFIG_MAP], INSTALL_CONFIG, namespace)
        except (Refused, KfrecError):
            continue
        yield str(((found or {}).get("data") or {}).get(key, ""))


def version_in(tag: str) -> tuple[int, int] | None:
    """Major and minor version, or None if the tag has none."""
    match = re.match(r"v?(\d+)\.(\d+)", tag)
    return (int(match[1]), int(match[2])) if match else None
