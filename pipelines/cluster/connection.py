"""The connection to a KFP API server, and its error messages."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests

from components.errors import KfrecError

if TYPE_CHECKING:
    from kfp import Client

ENDPOINT, TOKEN, TOKEN_FILE = "KFP_ENDPOINT", "KFP_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH"
_TIMEOUT = (10.0, 60.0)  # to connect, to read; seconds
_PAGE = 100


def connect(endpoint: str = "", namespace: str = "") -> Client:
    """A client of the API server.

    Args:
        endpoint: its URL; empty is the one in the environment variable KFP_ENDPOINT.
        namespace: of the user, in multi-user KFP; otherwise empty.

    The token comes from KFP_TOKEN, or from the file that KF_PIPELINES_SA_TOKEN_PATH names: a service account token for
    KFP, mounted into a pod. Without either, requests carry no token. The file is read again for every request, because
    Kubernetes rotates the token during a training.

    Raises:
        KfrecError: no endpoint, or it does not answer or refuses.
    """
    host = host_of(endpoint)
    token, path = os.environ.get(TOKEN, ""), os.environ.get(TOKEN_FILE, "")
    ask(host)
    from kfp import Client
    from kfp.client import ServiceAccountTokenVolumeCredentials

    credentials = ServiceAccountTokenVolumeCredentials(path) if path and not token else None

    with explained(host), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This client only works with", category=FutureWarning)
        client = Client(host=host, existing_token=token or None, credentials=credentials,
                        namespace=namespace or "kubeflow")  # fmt: skip
        for api in (client._experiment_api, client._run_api, client._pipelines_api):
            _time_out(api.api_client)
        _time_out(client._upload_api.api_client)
    return client


def ask(endpoint: str = "", path: str = "healthz", timeout: tuple[float, float] = _TIMEOUT) -> dict[str, Any]:
    """The API server's response at one path; bypasses the client, which would retry for half a minute.

    Args:
        endpoint: as for ``connect``; so is the token.
        path: below ``/apis/v2beta1``.
        timeout: to connect, to read; seconds.

    Raises:
        KfrecError: no endpoint, or it does not answer, refuses, or is not KFP's API.
    """
    return _probe(host_of(endpoint), _token(), path, timeout)


def log_of(host: str, run_id: str, pod: str, lines: int) -> list[str]:
    """The last lines of a step's log; empty if KFP cannot read it, or the caller may not.

    Args:
        host: the API server's URL.
        run_id: KFP's identifier of the run.
        pod: of the step.
        lines: longest list.
    """
    url = f"{host}/apis/v1alpha1/runs/{quote(run_id, safe='')}/nodes/{quote(pod, safe='')}/log"
    try:
        with requests.get(url, headers=_headers(_token()), timeout=_TIMEOUT, stream=True) as answer:
            if not answer.ok or "json" in answer.headers.get("Content-Type", ""):
                return []
            last = deque(answer.iter_lines(), maxlen=lines)
    except requests.RequestException:
        return []
    return [line.decode(errors="replace").rstrip() for line in last]


def version_in(health: Mapping[str, Any]) -> tuple[int, int] | None:
    """Major and minor version from the API server's health response, or None if it has none."""
    match = re.match(r"v?(\d+)\.(\d+)", str(health.get("tag_name", "")))
    return (int(match[1]), int(match[2])) if match else None


def host_of(endpoint: str) -> str:
    """The API server's URL.

    Args:
        endpoint: as for ``connect``.

    Raises:
        KfrecError: no endpoint.
    """
    host = (endpoint or os.environ.get(ENDPOINT, "")).rstrip("/")
    if not host:
        raise KfrecError(f"no address of KFP's API; give --endpoint URL or set {ENDPOINT}")
    return host


def namespace_of(client: Client) -> str | None:
    """The user's namespace in multi-user KFP, else None."""
    return client.get_user_namespace() or None


def pages(listing: Callable[..., Any], **query: Any) -> Iterator[Any]:
    """The pages of one of the client's lists."""
    token = ""
    while True:
        page = listing(page_token=token, page_size=_PAGE, **query)
        yield page
        token = page.next_page_token
        if not token:
            return


def _probe(host: str, token: str, path: str, timeout: tuple[float, float]) -> dict[str, Any]:
    try:
        answer = requests.get(
            f"{host}/apis/v2beta1/{path}", headers=_headers(token), timeout=timeout, allow_redirects=False
        )
    except requests.RequestException as error:
        raise KfrecError(f"{host}: does not answer ({type(error).__name__}); check the endpoint") from None
    if answer.status_code in (401, 403):
        raise _not_allowed(host, answer.status_code, _message_in(answer.text))
    if answer.is_redirect:
        raise KfrecError(
            f"{host}: redirects to {answer.headers['Location'].partition('?')[0]}, probably to log in; set {TOKEN}, or "
            "give the address of KFP's API behind the login"
        )
    if not answer.ok:
        looked = "its health" if path == "healthz" else path.partition("?")[0]
        raise KfrecError(f"{host}: answered {answer.status_code} to a request for {looked}; is this KFP's API?")
    said = _json_object(answer.text)
    if said is None:
        raise KfrecError(
            f"{host}: answers with a page that is not KFP's API, perhaps a login page; set {TOKEN}, or correct the "
            "endpoint"
        )
    return said


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _not_allowed(host: str, status: int, message: str) -> KfrecError:
    reason = f": {message}" if message else ""
    return KfrecError(f"{host}: refused ({status}); set {TOKEN}, and in a multi-user KFP give --namespace{reason}")


def _time_out(api_client: Any) -> None:
    """Sets a timeout on every request of a generated client, which has none."""
    request = api_client.rest_client.request
    if getattr(request, "times_out", False):
        return

    def limited(*arguments: Any, **options: Any) -> Any:
        options["_request_timeout"] = options.get("_request_timeout") or _TIMEOUT
        return request(*arguments, **options)

    limited.times_out = True  # type: ignore[attr-defined]
    api_client.rest_client.request = limited


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _token() -> str:
    """The token of ``connect``, read now."""
    return os.environ.get(TOKEN, "") or _read_token(os.environ.get(TOKEN_FILE, ""))


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text().strip() if path else ""
    except OSError as error:
        raise KfrecError(f"{path}: cannot be read ({error.strerror}); correct {TOKEN_FILE}") from None


@contextmanager
def explained(host: str) -> Iterator[None]:
    """Turns the client's exceptions into one-line errors."""
    from kfp_server_api import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        if error.status in (401, 403):
            raise _not_allowed(host, error.status, _message_in(error.body)) from None
        raise KfrecError(f"{host}: answered {error.status}: {_message_in(error.body) or error.reason}") from None
    except (HTTPError, TimeoutError) as error:
        raise KfrecError(f"{host}: does not answer ({type(error).__name__}); check the endpoint") from None


def may_pass(error: Exception) -> bool:
    """Whether a client's exception may be transient: the server did not answer, or failed."""
    from urllib3.exceptions import HTTPError

    return isinstance(error, HTTPError) or (status_of(error) or 0) >= 500


def status_of(error: Exception) -> int | None:
    """The HTTP status of a client's exception, or None."""
    return getattr(error, "status", None)


def _message_in(body: str | None) -> str:
    """The server's message in the body of an error, on one line; empty if there is none."""
    said = _json_object(body or "") or {}
    return " ".join(str(said.get("message") or said.get("error") or "").split())[:300]
