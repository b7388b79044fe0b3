"""kubectl as the suite uses it: plain functions over its output."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import yaml

from tests import waiting

Json = dict[str, Any]
# A try is some kubectl processes: without a pause they would take a core from what is waited for.
_PAUSE = 1.0


def wait_for(condition: Callable[[], object]) -> None:
    """Waits until the condition, which asks the API server, holds."""
    waiting.wait_for(condition, _PAUSE)


def tried(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["kubectl", *arguments], input=given, capture_output=True, text=True)


def kubectl(*arguments: str, given: str | None = None) -> str:
    """What kubectl prints.

    Raises:
        AssertionError: it failed; the message has what it says.
    """
    done = tried(*arguments, given=given)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}"
    return done.stdout


def apply(objects: Iterable[Json], *options: str) -> str:
    return kubectl("apply", *options, "-f", "-", given=yaml.safe_dump_all(list(objects)))


def found(namespace: str, kind: str, name: str) -> Json | None:
    """An object; None if there is none."""
    told = kubectl("-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json")
    return json.loads(told) if told else None


def listed(namespace: str, kinds: str, *options: str) -> list[Json]:
    return json.loads(kubectl("-n", namespace, "get", kinds, *options, "-o", "json"))["items"]


def await_gone(namespace: str, kind: str, name: str) -> None:
    wait_for(lambda: found(namespace, kind, name) is None)


def phase(namespace: str, pod: str) -> str:
    """A pod's phase; empty if it does not exist."""
    there = found(namespace, "pod", pod)
    return there["status"]["phase"] if there else ""


def log(namespace: str, pod: str, *options: str) -> str:
    """All that a pod's container has said; what a pod of a lost node said is nowhere."""
    return tried("-n", namespace, "logs", pod, *options).stdout


def allowed(account: str, verb: str, resource: str, namespace: str) -> bool:
    """Whether a service account may do something, by a SubjectAccessReview.

    Args:
        account: namespace and name, with a colon.
        verb: of the API.
        resource: plural, with its group after a dot and its subresource after a slash: `pods/log`, `jobs.batch`.
        namespace: of the resource.
    """
    plain, _, subresource = resource.partition("/")
    name, _, group = plain.partition(".")
    space = account.partition(":")[0]
    attributes = {"namespace": namespace, "verb": verb, "resource": name, "group": group, "subresource": subresource}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated"]
    spec = {"user": f"system:serviceaccount:{account}", "groups": groups, "resourceAttributes": attributes}
    answer = _reviews().create_subject_access_review({"spec": spec})
    return bool(answer.status.allowed)


@cache
def _reviews() -> Any:
    """A client of the API server: hundreds of reviews by kubectl would take minutes."""
    from kubernetes import client, config

    config.load_kube_config()
    return client.AuthorizationV1Api()
