"""The rights of the steps' service account, from the API server's access reviews; no action is performed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.cluster.api import Refused
from components.cluster.rights import RIGHTS, Right
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, missing, note, ok

_GROUP = "/apis/authorization.k8s.io/v1"
# Rights of KFP's launcher and Argo's executor in the pod of every step.
_OF_KFP = (
    Right("", "configmaps", ("get",)),
    Right("", "secrets", ("get",)),
    Right("argoproj.io", "workflowtaskresults", ("create", "patch")),
)


class _Asking:
    """Uses the first permitted access review: of the caller, of an account, or by impersonating it."""

    def __init__(self, place: Place) -> None:
        self._api, self._account, self._namespace = place.api, place.account, place.api.namespace
        self._user = f"system:serviceaccount:{self._namespace}:{self._account}"
        self._in_its_place = False

    def may(self, right: Right, verb: str, namespace: str) -> tuple[bool, str]:
        """Whether the verb is allowed, and the API server's reason.

        Raises:
            Refused: the caller may not create access reviews.
        """
        resource, _, subresource = right.resource.partition("/")
        attributes = {"namespace": namespace, "verb": verb, "group": right.group, "resource": resource}
        if subresource:
            attributes["subresource"] = subresource
        if self._account and not self._in_its_place:
            try:
                return self._about(attributes)
            except Refused as no:
                if no.status != 403:
                    raise
                self._in_its_place = True
        headers = {"Impersonate-User": self._user} if self._account else {}
        return self._review("selfsubjectaccessreviews", {"resourceAttributes": attributes}, headers)

    def _about(self, attributes: dict[str, str]) -> tuple[bool, str]:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self._namespace}", "system:authenticated"]
        spec = {"resourceAttributes": attributes, "user": self._user, "groups": groups}
        return self._review("subjectaccessreviews", spec, {})

    def _review(self, plural: str, spec: dict[str, Any], headers: dict[str, str]) -> tuple[bool, str]:
        kind = {"selfsubjectaccessreviews": "SelfSubjectAccessReview", "subjectaccessreviews": "SubjectAccessReview"}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind[plural], "spec": spec}
        status = self._api.post(f"{_GROUP}/{plural}", body, headers).get("status", {})
        return bool(status.get("allowed")), str(status.get("reason") or status.get("evaluationError") or "")


def check(place: Place) -> Iterator[Finding]:
    who = place.account or "this account"
    asking = _Asking(place)
    try:
        yield from (_finding(asking, right, who, place.job_namespace) for right in RIGHTS)
        yield from _of_kfp(asking, who, place.api.namespace)
    except Refused as no:
        yield note(
            f"the rights of {who} cannot be checked ({no.message})",
            f"have an administrator run kfrec doctor --cluster --service-account {place.account or 'NAME'}",
        )
        return
    if not place.account:
        yield note(
            "these are the rights of the caller",
            "--service-account kfrec-pipeline checks those of the steps' account",
        )


def _finding(asking: _Asking, right: Right, who: str, namespace: str) -> Finding:
    refused, reason = _refused(asking, right, namespace)
    if not refused:
        return ok(f"{right.resource}: {who} may {', '.join(right.verbs)}")
    found = f"{right.resource}: {who} may not {', '.join(refused)} in {namespace}{reason}"
    remedy = "apply the role of manifests/base/rights.yaml and bind it"
    return note(f"{found}: {right.without}", remedy) if right.without else missing(found, remedy)


def _of_kfp(asking: _Asking, who: str, namespace: str) -> Iterator[Finding]:
    lacking = [(right.resource, refused) for right in _OF_KFP if (refused := _refused(asking, right, namespace)[0])]
    if lacking:
        denied = "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in lacking)
        yield missing(
            f"steps of KFP: {who} may not {denied} in {namespace}",
            "bind KFP's own role: pipeline-runner, or kubeflow-edit in multi-user KFP",
        )
    else:
        yield ok(f"steps of KFP: {who} may do what launcher and executor do")


def _refused(asking: _Asking, right: Right, namespace: str) -> tuple[list[str], str]:
    """The denied verbs, and the reason in parentheses."""
    refused, reason = [], ""
    for verb in right.verbs:
        allowed, why = asking.may(right, verb, namespace)
        if not allowed:
            refused.append(verb)
            reason = reason or why
    return refused, f" ({reason})" if reason else ""
