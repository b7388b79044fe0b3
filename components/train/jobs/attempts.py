"""The jobs of one training: adopts the job of an earlier attempt of the step, or creates the next one."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from components.cluster.api import Cluster, Kind, Refused
from components.cluster.pods import Owner, diagnosed
from components.errors import KfrecError
from components.train.jobs.kind import JobKind, condition, outcome
from components.train.jobs.watcher import Pace

Json = dict[str, Any]
DIGEST = "kfrec.io/spec-digest"
TRAINING_LABEL, ATTEMPT_LABEL = "kfrec.io/training", "kfrec.io/attempt"


def training_name(run_id: str, model_uri: str) -> str:
    """A name derived from the run and the output only, so that a retried step finds its jobs."""
    return f"kfrec-train-{hashlib.sha256(f'{run_id} {model_uri}'.encode()).hexdigest()[:12]}"


def job_name(training: str, attempt: int) -> str:
    """The name of a job; attempts never share a job or pod name."""
    return f"{training}-{attempt}"


def job_object(
    kind: Kind,
    training: str,
    attempt: int,
    namespace: str,
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
    owner: Owner | None = None,
) -> Json:
    """The object to create.

    Args:
        attempt: number of the job among those of its training, from 1.
        labels: beside those by which the jobs of a training are found.
        owner: for the owner reference, if any.
    """
    metadata: Json = {
        "name": job_name(training, attempt),
        "namespace": namespace,
        "labels": {**labels, TRAINING_LABEL: training, ATTEMPT_LABEL: str(attempt)},
        "annotations": {DIGEST: _digest(spec)},
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner.reference()]
    return {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.name, "metadata": metadata, "spec": spec}


def _digest(spec: Mapping[str, Any]) -> str:
    """A digest of the specification, to compare jobs despite fields that the API server adds."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


class Attempts:
    """Creates the jobs of a training, one at a time.

    Attributes:
        current: name of the job to delete if this process fails; empty is none.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: JobKind,
        training: str,
        body: Callable[[int], Json],
        owner: Owner | None,
        pace: Pace,
        echo: Callable[[str], None],
        echo_once: Callable[[str], None],
    ) -> None:
        self._cluster, self._kind, self._training, self._body, self._owner = cluster, kind, training, body, owner
        self._pace, self._echo, self._echo_once = pace, echo, echo_once
        self._last = 0
        self.current = ""

    def begin(self) -> Json:
        """Creates the next job, or adopts one created by another process of this step.

        Raises:
            Refused: the API server forbids or rejects the job.
            KfrecError: a job of this name exists with another specification.
        """
        while True:
            existing = self._existing()
            for job in existing[:-1]:
                self._cluster.delete(_name(job))
            if existing and _number(existing[-1]) > self._last:
                self._last = _number(existing[-1])
                if self._adopt(existing[-1]):
                    return existing[-1]
            if (created := self._created(self._last + 1)) is not None:
                self._last += 1
                return created

    def other(self) -> bool:
        """Whether another process of this step has created a later job."""
        return any(_number(job) > self._last for job in self._existing())

    def end(self) -> None:
        """Deletes the current job and waits for its pods to end, so that only one training writes the output."""
        self._cluster.delete(self.current)
        self._await_end(self.current)
        self.current = ""

    def delete_expired(self) -> None:
        """Deletes expired finished jobs of any training: the operator deletes only their launchers."""
        jobs = diagnosed(f"old {self._kind.name}s", lambda: self._cluster.objects(TRAINING_LABEL), self._echo_once)
        for job in jobs or ():
            if self._is_expired(job, datetime.now(UTC)):
                with suppress(Refused):
                    self._cluster.delete(_name(job))

    def _existing(self) -> list[Json]:
        """The jobs of this training, newest last."""
        return sorted(self._cluster.objects(f"{TRAINING_LABEL}={self._training}"), key=_number)

    def _adopt(self, job: Json) -> bool:
        """Whether to follow an existing job; deletes a failed one."""
        name = _name(job)
        if job["metadata"].get("deletionTimestamp"):
            self._echo_once("an earlier job of this step is being deleted; waiting for that")
            self._await_end(name)
            return False
        if outcome(job) == "Failed":
            self._echo(f"{self._kind.name} {name} of an earlier try has failed; starting it again")
            self._cluster.delete(name)
            self._await_end(name)
            return False
        self._require_same(job)
        self.current = name
        self._echo(f"found {self._kind.name} {name} of an earlier try; following it")
        owners = job["metadata"].get("ownerReferences", [])
        if self._owner is not None and all(owner["uid"] != self._owner.uid for owner in owners):
            try:
                self._cluster.own(name, [*owners, self._owner.reference()])
            except Refused as refused:
                owner = f"{self._owner.kind} {self._owner.name}"
                self._echo_once(f"{self._kind.name} {name} cannot have {owner} as an owner ({refused})")
        return True

    def _created(self, number: int) -> Json | None:
        """A new job; None if the name is taken."""
        body = self._body(number)
        name = _name(body)
        while True:
            self.current = name  # before the request: the response may be lost
            try:
                created = self._cluster.create(body)
                self._echo(f"created {self._kind.name} {name} in namespace {self._cluster.namespace}")
                return created
            except Refused as refused:
                self.current = ""
                if refused.status == 403 and "exceeded quota" in refused.message:
                    self._echo_once(f"the namespace is over its quota: {refused.message}; trying again")
                    time.sleep(self._pace.quota)
                    continue
                if refused.status != 409:
                    raise
            job = self._cluster.get(name)
            if job is not None:
                self._require_same(job)
            return None

    def _require_same(self, job: Json) -> None:
        name = _name(job)
        if job["metadata"].get("annotations", {}).get(DIGEST) != _digest(self._body(1)["spec"]):
            raise KfrecError(
                f"{self._kind.name} {name} exists with another specification; delete it with "
                f"kubectl -n {self._cluster.namespace} delete {self._kind.name.lower()} {name}, or use another run"
            )

    def _await_end(self, name: str) -> None:
        """Waits until a deleted job and its pods are gone, or for a timeout: pods of a lost node never end."""
        until = time.monotonic() + self._pace.ending
        while self._cluster.get(name) is not None and time.monotonic() < until:
            time.sleep(min(1.0, self._pace.look))

    def _is_expired(self, job: Json, now: datetime) -> bool:
        kind = outcome(job)
        if kind is None:
            return False
        # The operator sets no completion time for a job with an evicted worker.
        ended = job["status"].get("completionTime") or (condition(job, kind) or {}).get("lastTransitionTime")
        if not ended:
            return False
        age = now - datetime.fromisoformat(ended[:19]).replace(tzinfo=UTC)
        return age.total_seconds() > self._kind.policy(job).get("ttlSecondsAfterFinished", 0)


def _name(job: Json) -> str:
    return job["metadata"]["name"]


def _number(job: Json) -> int:
    return int(job["metadata"]["labels"].get(ATTEMPT_LABEL, 0))
