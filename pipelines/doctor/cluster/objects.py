"""Checks of what the Kubernetes API holds: mpi-operator's CRD, settings, accounts and their rights, GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from components.cluster.api import RIGHTS, Refused, Right
from components.errors import KfrecError
from components.images import REGISTRY
from components.train.mpijob.job import KIND
from pipelines.cluster.connection import ask
from pipelines.doctor.cluster.examined import (
    CONFIG_MAP,
    LAUNCHER,
    PLURALS,
    SECRET,
    TIMEOUT,
    Examined,
    Held,
    kfp_version,
)
from pipelines.doctor.examination import Finding, missing, note, ok

_APPLY = "kubectl apply -k the overlay"
# Values of the manifests that stand for one's own.
_PLACEHOLDER = re.compile(r"\b(registry\.example\.org|profile-name|PROJECT|BUCKET|ACCOUNT|REGION|ROLE)\b")
# Keys that a step requires, and how to create them.
_NEEDED = {
    (CONFIG_MAP, "kfrec-config"): (("MLFLOW_TRACKING_URI", REGISTRY), f"{_APPLY}, which names its values"),
    (CONFIG_MAP, "kfrec-mpijob"): (("mpijob.yaml",), _APPLY),
    (SECRET, "kfrec-mlflow"): (
        ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
        "manifests/create-secrets.sh NAMESPACE",
    ),
    (SECRET, "kfrec-object-store"): (
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        "kubectl create secret generic kfrec-object-store --from-literal=AWS_ACCESS_KEY_ID=... "
        "--from-literal=AWS_SECRET_ACCESS_KEY=...",
    ),
}
# Schemes of stores that need a key, and whether an IAM role can replace it.
_KEYED = {"s3": True, "minio": False}
_OBJECT_STORE = "kfrec-object-store"
# Rights of KFP's launcher and Argo's executor in the pod of every step, and the first KFP whose Argo needs the last.
_OF_KFP = (Right("", "configmaps", ("get",)), Right("", "secrets", ("get",)))
_RESULTS = Right("argoproj.io", "workflowtaskresults", ("create", "patch"))
_RESULTS_SINCE = (2, 14)
# The level of pod security that a namespace enforces, and the first KFP that reads what kfrec says for the highest one.
_ENFORCED, _NON_ROOT_SINCE = "pod-security.kubernetes.io/enforce", (2, 17)
_OWN_ROLE = "apply the role of manifests/base/rights.yaml and bind it"
_ROLE_OF_KFP = "bind KFP's own role: pipeline-runner, or kubeflow-edit in multi-user KFP"


def kubernetes(examined: Examined) -> Iterator[Finding]:
    if examined.kubernetes is None:
        yield missing(examined.unanswered)
        return
    namespace = examined.kubernetes.namespace
    if (found := _namespace(examined, namespace)) is not None:
        yield ok(f"{examined.version} at {examined.kubernetes.host}, namespace {namespace}")
        labels = found.get("metadata", {}).get("labels") or {}
        if labels.get(_ENFORCED) == "restricted" and (oldest := _oldest_kfp(examined)) and oldest < _NON_ROOT_SINCE:
            yield missing(
                f"namespace {namespace} enforces restricted pod security, and KFP before 2.17 starts the steps' pods "
                "without runAsNonRoot",
                "update KFP, or enforce baseline",
            )
    else:
        yield missing(f"no namespace {namespace} at {examined.kubernetes.host}", "give --namespace NAME")


def _namespace(examined: Examined, name: str) -> dict[str, Any] | None:
    """A namespace; empty if the account may not read it, whose content other checks look at; None if there is none."""
    try:
        return examined.api.get(f"/api/v1/namespaces/{name}")
    except Refused:
        return {}


def mpijobs(examined: Examined) -> Iterator[Finding]:
    """mpi-operator's CRD; the Training Operator has one of the same name and another version."""
    crd, install = f"{KIND.plural}.{KIND.group}", "install mpi-operator 0.6 or later"
    served = examined.api.served(KIND.group, KIND.plural)
    if not served:
        yield missing(f"no {crd}", install)
    elif KIND.version not in served:
        yield missing(
            f"{crd} serves {', '.join(served)}, as a Training Operator's does, and not {KIND.version}",
            f"the two CRDs cannot coexist: remove the Training Operator and this CRD, then {install}",
        )
    else:
        yield ok(f"{crd} serves {KIND.version}")


def settings(examined: Examined) -> Iterator[Finding]:
    """Config maps and secrets that the steps mount: they exist and have the required keys."""
    if examined.job_mistake:
        yield missing(examined.job_mistake)
    for held in examined.held:
        if held.name != LAUNCHER and not (held.name == _OBJECT_STORE and examined.scheme not in _KEYED):
            yield _mounted(held, examined, role_may_do=_KEYED.get(examined.scheme, False))
    yield from _placeholders(examined)
    yield from _references(examined)


def _placeholders(examined: Examined) -> Iterator[Finding]:
    """Values that are still those of the manifests."""
    for held in examined.held:
        for key, text in (held.values or {}).items() if held.kind == CONFIG_MAP else ():
            line = next((line for line in text.splitlines() if _PLACEHOLDER.search(line)), "")
            if found := _PLACEHOLDER.search(line):
                yield missing(
                    f"config map {held.name}: {key}: {line.strip()} has the placeholder {found[1]}",
                    f"put your own value into the overlay; {_APPLY}",
                )


def _references(examined: Examined) -> Iterator[Finding]:
    """Objects and images that the settings of MPIJobs and steps name."""
    job, place = examined.job, "config map kfrec-mpijob: mpijob.yaml"
    registry = examined.environment.get(REGISTRY, "").rstrip("/")
    if registry and not examined.job_mistake and not job.image.startswith(f"{registry}/"):
        yield note(f"{place}: image: {job.image} is not from {REGISTRY}={registry}", "correct one of them")
    if job.namespace and _namespace(examined, job.namespace) is None:
        yield missing(f"{place}: namespace: there is no namespace {job.namespace}", "correct it")
        return
    named = [(place, "secret_environment", SECRET, name, examined.job_namespace) for name in job.secret_environment]
    named += [(place, "config_environment", CONFIG_MAP, n, examined.job_namespace) for n in job.config_environment]
    named += [(place, "image_pull_secrets", SECRET, name, examined.job_namespace) for name in job.image_pull_secrets]
    own = {name for step in examined.settings.steps.values() for name in step.image_pull_secrets}
    file = str(examined.settings.source)
    named += [(file, "image_pull_secrets", SECRET, name, examined.api.namespace) for name in sorted(own)]
    for where, field, kind, name, namespace in named:
        if name == _OBJECT_STORE or (kind, name) in _NEEDED:
            continue
        try:
            if examined.api.object(PLURALS[kind], name, namespace) is None:
                yield missing(f"{where}: {field}: {kind} {name} is not in {namespace}", "correct the name, or make it")
        except Refused as no:
            yield note(f"{where}: {field}: {kind} {name} may not be looked up ({no.status})")


def _mounted(held: Held, examined: Examined, role_may_do: bool) -> Finding:
    subject = f"{held.kind} {held.name}"
    keys, remedy = _NEEDED.get((held.kind, held.name), ((), f"make it, or take it out of {examined.settings.source}"))
    remedy = remedy.replace("NAMESPACE", examined.api.namespace)
    if held.refused:
        return note(f"{subject} may not be read ({held.refused})")
    if held.values is None:
        message = f"{subject} is not in {examined.api.namespace}"
        if not keys:
            return note(f"{message}; steps start without it", remedy)
        if held.name == _OBJECT_STORE and role_may_do:
            return note(f"{message}; right only where the pods have a role in IAM", remedy)
        return missing(message, remedy)
    absent = [key for key in keys if not held.values.get(key)]
    if absent and held.name == "kfrec-mlflow" and held.values.get("MLFLOW_TRACKING_TOKEN"):
        absent = []
    return missing(f"{subject} lacks {', '.join(absent)}", remedy) if absent else ok(f"{subject} is there")


def accounts(examined: Examined) -> Iterator[Finding]:
    """The service accounts of steps and MPIJobs."""
    named = {
        (examined.api.namespace, examined.account or "kfrec-pipeline"),
        (examined.job_namespace, examined.job.service_account),
    }
    for namespace, name in sorted(named):
        try:
            there = examined.api.object("serviceaccounts", name, namespace) is not None
        except Refused as no:
            yield note(f"service account {name} may not be looked up ({no.status})")
            continue
        if there:
            yield ok(f"service account {name}")
        else:
            yield missing(f"no service account {name} in {namespace}", f"{_APPLY}, or name another one")


def rights(examined: Examined) -> Iterator[Finding]:
    """The rights of the steps' account, as kubectl auth can-i --as asks for them; no action is performed."""
    who, own = examined.account or "this account", examined.api.namespace
    try:
        for right in RIGHTS:
            yield _right(examined, right, who, examined.job_namespace, _OWN_ROLE)
        for right in _of_kfp(examined):
            yield _right(examined, right, who, own, _ROLE_OF_KFP)
    except Refused as no:
        yield note(
            f"the rights of {who} cannot be checked ({no.message})",
            f"have an administrator run kfrec doctor --cluster --service-account {examined.account or 'NAME'}",
        )
        return
    if not examined.account:
        yield note(
            "these are the rights of the caller",
            "--service-account kfrec-pipeline checks those of the steps' account",
        )


def _of_kfp(examined: Examined) -> tuple[Right, ...]:
    """The rights that this version of KFP needs; those of an unknown version may not be necessary."""
    oldest = _oldest_kfp(examined)
    if oldest is None:
        return (*_OF_KFP, replace(_RESULTS, without="KFP 2.14 and newer need it, this version is not known"))
    return _OF_KFP if oldest < _RESULTS_SINCE else (*_OF_KFP, _RESULTS)


def _oldest_kfp(examined: Examined) -> tuple[int, int] | None:
    """The oldest version that KFP can be; None if nothing tells."""
    try:
        return kfp_version(examined, ask(examined.endpoint, timeout=TIMEOUT))[1] if examined.endpoint else None
    except KfrecError:
        return None


def _right(examined: Examined, right: Right, who: str, namespace: str, remedy: str) -> Finding:
    lacking = {verb: why for verb in right.verbs if (why := _refusal(examined, right, verb, namespace)) is not None}
    if not lacking:
        return ok(f"{right.resource}: {who} may {', '.join(right.verbs)}")
    reason = next(filter(None, lacking.values()), "")
    message = f"{right.resource}: {who} may not {', '.join(lacking)} in {namespace}{f' ({reason})' if reason else ''}"
    return note(f"{message}: {right.without}", remedy) if right.without else missing(message, remedy)


def _refusal(examined: Examined, right: Right, verb: str, namespace: str) -> str | None:
    """The API server's reason, which may be empty, to refuse a verb; None if it is allowed.

    Raises:
        Refused: the caller may not ask, or not in the account's place.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "group": right.group, "resource": resource}
    attributes |= {"subresource": subresource} if subresource else {}
    user = f"system:serviceaccount:{examined.api.namespace}:{examined.account}"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    status: dict[str, Any] = examined.api.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        review,
        {"Impersonate-User": user} if examined.account else {},
    ).get("status", {})
    return None if status.get("allowed") else str(status.get("reason") or status.get("evaluationError") or "")


def gpus(examined: Examined) -> Iterator[Finding]:
    try:
        nodes = (examined.api.get("/api/v1/nodes", limit="500") or {}).get("items", ())
    except Refused as no:
        yield note(f"nodes may not be listed ({no.status})", "run kubectl describe nodes with an account that may")
        return
    steps = {step.gpu_resource for step in examined.settings.steps.values() if step.gpus}
    for name in sorted({examined.job.gpu_resource, *steps}):
        counts = [int(node.get("status", {}).get("allocatable", {}).get(name, 0)) for node in nodes]
        if any(counts):
            yield ok(f"{name}: {sum(counts)} on {sum(map(bool, counts))} of {len(nodes)} nodes")
        else:
            yield note(
                f"{name}: on none of {len(nodes)} nodes",
                "install the device plugin, unless nodes come when asked for; for a cluster without GPUs: "
                "kfrec submit --size small, or gpus_per_worker=0",
            )
