"""``kfrec doctor --cluster`` in the pod that the manifests have for it."""

from __future__ import annotations

from tests.cluster import kubectl as k8s
from tests.cluster.steps import Place
from tests.fakes.kfp_api import KfpApi


def test_doctor_finds_an_installation_that_works(place: Place, kfp: KfpApi) -> None:
    namespace = place.namespace
    k8s.kubectl("-n", namespace, "create", "job", "--from=cronjob/kfrec-doctor", "doctor")

    def ended() -> bool:
        body = k8s.found(namespace, "job", "doctor")
        assert body is not None
        return any(entry["type"] in ("Complete", "Failed") for entry in body["status"].get("conditions", ()))

    k8s.wait_for(ended)
    said = k8s.kubectl("-n", namespace, "logs", "job/doctor")
    k8s.kubectl("-n", namespace, "delete", "job", "doctor")
    assert "kfrec submit can work there" in said, said
