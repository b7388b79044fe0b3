"""The check of pods refuses what the restricted Pod Security Standard refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests.pods import violations

Json = dict[str, Any]
VOLUME = "mounts n, which is none of the volumes that are allowed"


def pod(of_pod: Json | None = None, of_container: Json | None = None, **spec: Any) -> Json:
    """A restricted pod, with some things changed."""
    container = {
        "name": "x",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            **(of_container or {}),
        },
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {"securityContext": {**security, **(of_pod or {})}, "containers": [container], **spec}


def test_a_restricted_pod_passes() -> None:
    assert violations(pod(volumes=[{"name": "tmp", "emptyDir": {}}])) == []


def test_a_pod_that_says_nothing_is_refused_for_everything() -> None:
    assert violations({"containers": [{"name": "x"}]}) == [
        "x runs as root", "x has no seccomp profile", "x may gain privileges", "x has capabilities",
        "x writes to its root file system",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (pod(of_pod={"runAsUser": 0}), "x runs as root"),
        (pod(of_pod={"sysctls": [{"name": "a", "value": "b"}]}), "changes the kernel's settings"),
        (pod(of_container={"runAsUser": 0}), "x runs as root"),
        (pod(of_container={"runAsNonRoot": False}), "x runs as root"),
        (pod(of_container={"seccompProfile": {"type": "Unconfined"}}), "x has no seccomp profile"),
        (pod(of_container={"privileged": True}), "x may gain privileges"),
        (pod(of_container={"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}), "x has capabilities"),
        (pod(of_container={"procMount": "Unmasked"}), "x sees the host's /proc"),
        (pod(hostNetwork=True), "shares the host's namespaces"),
        (pod(volumes=[{"name": "n", "hostPath": {"path": "/"}}]), VOLUME),
        (pod(volumes=[{"name": "n", "nfs": {"server": "s"}}]), VOLUME),
        (pod(containers=[pod()["containers"][0] | {"ports": [{"hostPort": 1}]}]), "x takes a port of the host"),
        (pod(initContainers=pod(of_container={"runAsUser": 0})["containers"]), "x runs as root"),
    ],
)  # fmt: skip
def test_one_bad_thing_is_refused(bad: Json, said: str) -> None:
    assert violations(bad) == [said]
