"""Config maps and secrets that the steps mount: they exist and have the required keys."""

from __future__ import annotations

from collections.abc import Iterator

from components.cluster.api import Refused
from components.errors import KfrecError
from pipelines.doctor.cluster.place import CONFIG_MAP, LAUNCHER, SECRET, Held, Place
from pipelines.doctor.finding import MISSING, Finding, missing, note, ok

_APPLY = "kubectl apply -k the overlay"
# Keys that a step requires, and how to create them.
_NEEDED = {
    (CONFIG_MAP, "kfrec-config"): (("MLFLOW_TRACKING_URI",), _APPLY),
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
# The secret that KFP's launcher reads for a minio:// root.
_OF_KFP, _KEYS_OF_KFP = "mlpipeline-minio-artifact", ("accesskey", "secretkey")


def check(place: Place) -> Iterator[Finding]:
    if place.job_mistake:
        yield Finding(MISSING, place.job_mistake)
    scheme = place.scheme
    for held in place.held:
        if held.name != LAUNCHER and not (held.name == _OBJECT_STORE and scheme not in _KEYED):
            yield _finding(held, place, role_may_do=_KEYED.get(scheme, False))
    if scheme == "minio":
        yield _key_of_kfp(place)
    for secret, keys in place.job.secret_environment.items():
        held_here = place.get(SECRET, secret)
        if held_here is None or held_here.values is None:
            continue  # not mounted by steps, or reported already
        unset = [key for key in keys if key not in held_here.values and key not in place.job.environment]
        if unset and set(unset) - {"AWS_ENDPOINT_URL"}:
            yield note(f"secret {secret}: mpijob.yaml takes {', '.join(unset)} from it, which it lacks")


def _finding(held: Held, place: Place, role_may_do: bool) -> Finding:
    subject = f"{held.kind} {held.name}"
    keys, remedy = _NEEDED.get((held.kind, held.name), ((), f"make it, or take it out of {place.settings.source}"))
    remedy = remedy.replace("NAMESPACE", place.api.namespace)
    if held.refused:
        return note(f"{subject} may not be read ({held.refused})")
    if held.values is None:
        found = f"{subject} is not in {place.api.namespace}"
        if not keys:
            return note(f"{found}; steps start without it", remedy)
        if held.name == _OBJECT_STORE and role_may_do:
            return note(f"{found}; right only where the pods have a role in IAM", remedy)
        return missing(found, remedy)
    absent = [key for key in keys if not held.values.get(key)]
    if absent and held.name == "kfrec-mlflow" and held.values.get("MLFLOW_TRACKING_TOKEN"):
        absent = []
    return missing(f"{subject} lacks {', '.join(absent)}", remedy) if absent else ok(f"{subject} is there")


def _key_of_kfp(place: Place) -> Finding:
    subject = f"secret {_OF_KFP}, KFP's key to its store"
    try:
        body = place.api.object("secrets", _OF_KFP)
    except (Refused, KfrecError) as error:
        return note(f"{subject}, may not be read ({error})")
    if body is None:
        return missing(
            f"{subject}, is not in {place.api.namespace}", "install KFP's manifests, or choose another pipeline root"
        )
    absent = [key for key in _KEYS_OF_KFP if key not in (body.get("data") or {})]
    return (
        missing(f"{subject}, lacks {', '.join(absent)}", "apply KFP's manifests again")
        if absent
        else ok(f"{subject}, is there")
    )
