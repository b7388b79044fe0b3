"""The Kubernetes rights that the steps' service account needs.

manifests/base/rights.yaml grants them, and ``kfrec doctor --cluster`` checks them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Right:
    """Verbs on one resource of a namespace.

    Attributes:
        group: API group; empty is the core group.
        resource: plural, with a subresource after a slash.
        verbs: required verbs.
        without: effect on a training if the right is missing; empty if training is impossible without it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    without: str = ""


RIGHTS = (
    Right("kubeflow.org", "mpijobs", ("get", "list", "watch", "create", "patch", "delete")),
    Right("", "pods", ("get", "list"), "a lost worker may be noticed late"),
    Right("", "pods/log", ("get",), "the workers' progress is not shown"),
    Right("", "events", ("list",), "reasons why pods do not start are not shown"),
    Right("argoproj.io", "workflows", ("get",), "an MPIJob belongs to the step's pod and goes with its node"),
)
