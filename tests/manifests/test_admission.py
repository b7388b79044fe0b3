"""The components that hold steps to kfrec's MPIJobs, and their connections to few addresses."""

from __future__ import annotations

import re
import shutil
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.cluster.template import own_labels
from components.train.mpijob.settings import JobSettings
from tests.manifests.test_manifests import MANIFESTS, NEWEST, OVERLAYS, build

Json = dict[str, Any]
# The first version with policies of admission, and the newest.
VERSIONS = ("1.30.0", NEWEST)

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """The objects that the components add, in a namespace, by kind."""
    copy = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("own") / "manifests")
    components = ["../components/admission", "../components/egress"]
    body = {"namespace": "team", "components": components}
    (copy / "own").mkdir()
    (copy / "own" / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return {body["kind"]: body for body in build(copy / "own")}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_components_validate_strictly(there: dict[str, Json], version: str) -> None:
    assert set(there) == {
        "ConfigMap", "NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    }  # fmt: skip
    for body in there.values():
        kubernetes_validate.validate(body, version, strict=True)


def test_the_settings_and_the_connections_are_of_the_namespace(there: dict[str, Json]) -> None:
    assert {there[kind]["metadata"]["namespace"] for kind in ("ConfigMap", "NetworkPolicy")} == {"team"}


def test_the_policy_reads_settings_that_are_there(there: dict[str, Json]) -> None:
    policy, binding = there["ValidatingAdmissionPolicy"], there["ValidatingAdmissionPolicyBinding"]
    spec = policy["spec"]
    texts = [each["expression"] for each in (*spec["variables"], *spec["validations"])]
    assert set(re.findall(r"params\.data\.(\w+)", " ".join(texts))) == set(there["ConfigMap"]["data"])
    declared = {each["name"] for each in spec["variables"]}
    assert set(re.findall(r"variables\.(\w+)", " ".join(texts))) == declared
    assert all(text.count("(") == text.count(")") for text in texts)
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["paramRef"]["name"] == there["ConfigMap"]["metadata"]["name"]
    assert "namespace" not in binding["spec"]["paramRef"]


def test_the_settings_let_in_what_the_train_step_makes(there: dict[str, Json]) -> None:
    allowed = {name: text.split(",") for name, text in there["ConfigMap"]["data"].items()}
    given = yaml.safe_load((MANIFESTS / "base/mpijob.yaml").read_text())
    assert given["service_account"] in allowed["workers"]
    assert set(given["secret_environment"]) <= set(allowed["secrets"])
    (account,) = (name for name in allowed["accounts"] if name.startswith("kfrec-"))
    assert account in (MANIFESTS / "base/accounts.yaml").read_text()
    name = re.compile(r"[^,]*kfrec-train[:@]")
    assert all(name.fullmatch(image) for image in allowed["images"])
    assert any(
        JobSettings().image.rpartition("/")[2].startswith(image.rpartition("/")[2]) for image in allowed["images"]
    )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_steps_may_not_change_the_settings(overlay: str) -> None:
    rules = [
        rule for body in build(MANIFESTS / "overlays" / overlay) if body["kind"] == "Role" for rule in body["rules"]
    ]
    assert rules and "configmaps" not in [resource for rule in rules for resource in rule["resources"]]


def test_no_pod_of_kfrec_reaches_the_metadata_of_a_cloud(there: dict[str, Json]) -> None:
    spec = there["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Egress"]
    assert spec["podSelector"]["matchLabels"].items() <= own_labels("any").items()
    for rule in spec["egress"]:
        ports = {entry["port"] for entry in rule.get("ports", ())}
        blocks = [peer["ipBlock"] for peer in rule.get("to", ()) if "ipBlock" in peer]
        assert not blocks or ports == {443, 6443}
        assert all("169.254.0.0/16" in block["except"] for block in blocks if block["cidr"] == "0.0.0.0/0")
        assert "to" in rule or ports == {53}
