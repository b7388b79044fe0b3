"""The lifecycle rules of buckets delete what pipelines leave, and nothing that MLflow or the logs need."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import boto3
import pytest
from google.cloud.storage.bucket import Bucket
from moto import mock_aws

from tests.manifests.test_manifests import MANIFESTS
from tests.manifests.test_overlays import objects

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


def s3_rules() -> list[tuple[str, int]]:
    """Prefix and days of what expires, as S3 takes them."""
    body = json.loads((MANIFESTS / "retention/s3.json").read_text())
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
        client.create_bucket(Bucket="bucket")
        client.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration=body)
        rules = client.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"]
    return [(rule["Filter"]["Prefix"], rule["Expiration"]["Days"]) for rule in rules if "Expiration" in rule]


def gcs_rules() -> list[tuple[str, int]]:
    body = json.loads((MANIFESTS / "retention/gcs.json").read_text())
    bucket = Bucket(None, "bucket")
    bucket.lifecycle_rules = body["rule"]
    found = []
    for rule in bucket.lifecycle_rules:
        assert set(rule["condition"]) <= {"age", "matchesPrefix"}
        if rule["action"]["type"] == "Delete":
            found += [(prefix, rule["condition"]["age"]) for prefix in rule["condition"]["matchesPrefix"]]
    return found


@pytest.mark.parametrize(("overlay", "rules"), [("gke", gcs_rules), ("eks", s3_rules)])
def test_what_expires_is_the_pipeline_root_and_nothing_else(
    overlay: str, rules: Callable[[], list[tuple[str, int]]]
) -> None:
    there = objects(overlay)

    def path(text: str) -> str:
        return text.partition("://BUCKET/")[2].rstrip("/") + "/"

    root = path(there["ConfigMap", "kfp-launcher"]["data"]["defaultPipelineRoot"])
    models = path(there["ConfigMap", "kfrec-config"]["data"]["MLFLOW_ARTIFACTS_DESTINATION"])
    ((prefix, days),) = rules()
    assert prefix == root and not models.startswith(prefix) and days >= 30
