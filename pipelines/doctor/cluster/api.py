"""Requests to the Kubernetes API, without retries and with a timeout of a few seconds."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.cluster.api import Refused, refused
from components.errors import KfrecError

Json = dict[str, Any]
TIMEOUT = (4.0, 20.0)  # to connect, to read; seconds


class Kubernetes:
    """An API server.

    Args:
        client: of the server.
        namespace: where kfrec is installed.

    Attributes:
        host: its address.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client, self.namespace = client, namespace
        self.host = str(client.configuration.host)

    def get(self, path: str, **query: str) -> Json | None:
        """The object at a path, or None if there is none.

        Raises:
            Refused: the API server rejected the request; 403 if the caller lacks a right.
            KfrecError: it did not answer.
        """
        try:
            return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)
        except Refused as no:
            if no.status == 404:
                return None
            raise

    def object(self, plural: str, name: str, namespace: str = "") -> Json | None:
        """An object of the core group in a namespace, by default kfrec's; see :meth:`get`."""
        return self.get(f"/api/v1/namespaces/{namespace or self.namespace}/{plural}/{quote(name, safe='')}")

    def post(self, path: str, body: Json, headers: dict[str, str] | None = None) -> Json:
        """The API server's response to a posted object; see :meth:`get`."""
        return self._ask("POST", path, body, headers or {})

    def served(self, group: str, plural: str) -> list[str]:
        """The served versions of a resource, from API discovery; see :meth:`get`."""
        found = self.get(f"/apis/{group}") or {}
        versions = [entry["version"] for entry in found.get("versions", ())]
        return [version for version in versions if plural in self._plurals(f"/apis/{group}/{version}")]

    def _plurals(self, path: str) -> set[str]:
        return {resource["name"] for resource in (self.get(path) or {}).get("resources", ())}

    def _ask(self, method: str, path: str, body: Json | None = None, headers: dict[str, str] | None = None) -> Json:
        try:
            return self._client.call_api(
                path, method, body=body, header_params={"Accept": "application/json", **(headers or {})},
                response_type="object", auth_settings=["BearerToken"], _return_http_data_only=True,
                _request_timeout=TIMEOUT,
            )  # fmt: skip
        except ApiException as error:
            raise refused(error) from error
        except HTTPError as error:
            raise KfrecError(f"{self.host}: does not answer ({type(error).__name__})") from None
