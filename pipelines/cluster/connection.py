"""The connection to a KFP API server, and its error messages."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy

from components.errors import KfrecError, certificate_problem

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
    Kubernetes rotates the token during a training. The certificate authorities are those of REQUESTS_CA_BUNDLE if it is
    set, and the proxy that of HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

    Raises:
        KfrecError: no endpoint, or it does not answer or refuses.
    """
    host = host_of(endpoint)
    token, path = _given_token(), os.environ.get(TOKEN_FILE, "")
    ask(host)
    from kfp import Client
    from kfp.client import ServiceAccountTokenVolumeCredentials

    credentials = ServiceAccountTokenVolumeCredentials(path) if path and not token else None
    ca, proxy = _way_to(host)

    class ThroughProxy(Client):
        """KFP's client, which ignores the account of a proxy."""

        def _load_config(self, *arguments: Any, **options: Any) -> Any:
            config = super()._load_config(*arguments, **options)
            config.proxy_headers = HTTPAdapter().proxy_headers(proxy) if proxy else None
            return config

    with explained(host), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This client only works with", category=FutureWarning)
        client = ThroughProxy(host=host, existing_token=token or None, credentials=credentials,
                              namespace=namespace or "kubeflow", ssl_ca_cert=ca, proxy=proxy)  # fmt: skip
        for api in (client._experiment_api, client._run_api, client._pipelines_api):
            _guard(host, api.api_client)
        _guard(host, client._upload_api.api_client)
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
    host = host_of(endpoint)
    try:
        answer = requests.get(
            f"{host}/apis/v2beta1/{path}", headers=_headers(_token()), timeout=timeout, allow_redirects=False
        )
    except requests.exceptions.ProxyError:
        raise KfrecError(
            f"{host}: its proxy does not answer; correct HTTPS_PROXY, or add the host to NO_PROXY"
        ) from None
    except requests.exceptions.SSLError as error:
        problem = certificate_problem(error) or "does not speak TLS; write http:// or correct the port"
        raise KfrecError(f"{host}: {problem}") from None
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
    body = _json_object(answer.text)
    if body is None:
        raise _no_api(host)
    return body


def log_of(host: str, run_id: str, pod: str, lines: int) -> list[str]:
    """The last lines of a step's log; empty if KFP cannot read it, or the caller may not."""
    url = f"{host}/apis/v1alpha1/runs/{quote(run_id, safe='')}/nodes/{quote(pod, safe='')}/log"
    try:
        with requests.get(url, headers=_headers(_token()), timeout=_TIMEOUT, stream=True) as answer:
            if not answer.ok or "json" in answer.headers.get("Content-Type", ""):
                return []
            last = deque(answer.iter_lines(), maxlen=lines)
    except requests.RequestException:
        return []
    return [line.decode(errors="replace").rstrip() for line in last]


def workflow_of(host: str, run_id: str) -> dict[str, Any]:
    """The Argo Workflow of a run, of which only KFP's API v1beta1 tells; empty if it does not."""
    try:
        answer = requests.get(
            f"{host}/apis/v1beta1/runs/{quote(run_id, safe='')}", headers=_headers(_token()), timeout=_TIMEOUT
        )
    except requests.RequestException:
        return {}
    runtime = (_json_object(answer.text) or {}).get("pipeline_runtime") or {}
    return (_json_object(runtime.get("workflow_manifest") or "") or {}) if answer.ok else {}


def host_of(endpoint: str) -> str:
    """The API server's URL.

    Raises:
        KfrecError: no endpoint, or it is not an address or holds a password.
    """
    host = (endpoint or os.environ.get(ENDPOINT, "")).strip().rstrip("/")
    if not host:
        raise KfrecError(f"no address of KFP's API; give --endpoint URL or set {ENDPOINT}")
    scheme, separator, rest = host.partition("://")
    if scheme not in ("http", "https") or not separator:
        raise KfrecError(f"{host}: is not an address of KFP's API; write it as http://HOST:PORT or https://HOST")
    if "@" in rest.partition("/")[0]:
        raise KfrecError(f"{host}: holds an account, which KFP's client does not send; leave it out, and set {TOKEN}")
    return host


def namespace_of(client: Client) -> str | None:
    """The user's namespace in multi-user KFP, else None."""
    return client.get_user_namespace() or None


def pages(listing: Callable[..., Any], **query: Any) -> Iterator[Any]:
    token = ""
    while True:
        page = listing(page_token=token, page_size=_PAGE, **query)
        yield page
        token = page.next_page_token
        if not token:
            return


def _no_api(host: str) -> KfrecError:
    return KfrecError(
        f"{host}: answers with a page that is not KFP's API, perhaps a login page; set {TOKEN}, or correct the endpoint"
    )


def _json_object(text: str | bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _not_allowed(host: str, status: int, message: str) -> KfrecError:
    reason = f": {message}" if message else ""
    return KfrecError(f"{host}: refused ({status}); set {TOKEN}, and in a multi-user KFP give --namespace{reason}")


def _guard(host: str, api_client: Any) -> None:
    """Sets a timeout on every request of a generated client, which has none, and refuses pages instead of answers.

    A proxy may let everyone see KFP's health and show others a login page, of which the client would read nothing.
    """
    request = api_client.rest_client.request
    if getattr(request, "guarded", False):
        return

    def guarded(*arguments: Any, **options: Any) -> Any:
        options["_request_timeout"] = options.get("_request_timeout") or _TIMEOUT
        answer = request(*arguments, **options)
        if _json_object(answer.data) is None:
            raise _no_api(host)
        return answer

    guarded.guarded = True  # type: ignore[attr-defined]
    api_client.rest_client.request = guarded


def _way_to(host: str) -> tuple[str | None, str | None]:
    """The file or folder of certificate authorities and the proxy that the environment names, as requests reads it."""
    session = requests.Session()
    settings = session.merge_environment_settings(host, {}, None, None, None)
    ca = settings["verify"]
    return ca if isinstance(ca, str) else None, select_proxy(host, settings["proxies"])


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _token() -> str:
    """The token of ``connect``, read now."""
    return _given_token() or _read_token(os.environ.get(TOKEN_FILE, ""))


def _given_token() -> str:
    return _checked_token(TOKEN, os.environ.get(TOKEN, "").strip())


def _checked_token(source: str, token: str) -> str:
    if not (token.isascii() and token.isprintable()):
        raise KfrecError(f"{source}: holds characters that no token has; set it to the token alone, in one line")
    return token


def _read_token(path: str) -> str:
    try:
        return _checked_token(path, Path(path).read_text(errors="replace").strip()) if path else ""
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
    answer = _json_object(body or "") or {}
    return " ".join(str(answer.get("message") or answer.get("error") or "").split())[:300]
