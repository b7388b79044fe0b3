"""The stand-in itself, through the official client: what the tests beside this one rely on."""

from __future__ import annotations

import json
from pathlib import Path

import kfp_server_api
import pytest
from kfp import Client

from pipelines.cluster.connection import connect
from pipelines.cluster.versions import Version, ensure_version
from tests.fakes.kfp_api import KfpApi
from tests.pipelines.cluster.test_unless_running import IR


@pytest.fixture
def client(url: str) -> Client:
    return connect(url)


@pytest.fixture
def version(client: Client) -> Version:
    return ensure_version(client, IR)


def start(client: Client, version: Version, name: str) -> str:
    experiment = client.create_experiment("e").experiment_id
    ids = {"pipeline_id": version.pipeline_id, "version_id": version.version_id}
    return str(client.run_pipeline(experiment, name, **ids).run_id)


def test_runs_are_listed_by_page_order_and_filter(api: KfpApi, client: Client, version: Version) -> None:
    api.page_limit = 2
    for name in ("b", "c", "a", "b2", "d"):
        start(client, version, name)
    names, token = [], ""
    while True:
        page = client.list_runs(page_token=token, sort_by="display_name desc")
        names.append([run.display_name for run in page.runs])
        if not (token := page.next_page_token):
            break
    assert names == [["d", "c"], ["b2", "b"], ["a"]]
    named = json.dumps({"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": "b"}]})
    assert [run.display_name for run in client.list_runs(filter=named).runs] == ["b"]


def test_a_page_begins_where_the_last_ended_also_where_something_was_deleted(
    api: KfpApi, client: Client, version: Version
) -> None:
    api.page_limit = 2
    runs = [start(client, version, name) for name in "abcd"]
    token = client.list_runs().next_page_token
    del api.runs[runs[0]]
    assert [run.display_name for run in client.list_runs(page_token=token).runs] == ["c", "d"]


def test_a_name_is_taken_once(client: Client, version: Version, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(IR)
    with pytest.raises(kfp_server_api.ApiException) as error:
        client.upload_pipeline_version(str(tmp_path / "p.yaml"), version.name, pipeline_id=version.pipeline_id)
    assert error.value.status == 409


def test_where_kfp_serves_several_users_everything_is_somebodys(api: KfpApi, url: str) -> None:
    api.multi_user = True
    with pytest.raises(kfp_server_api.ApiException) as error:
        connect(url).list_runs()
    assert error.value.status == 400
    assert connect(url, "ann").create_experiment("e").namespace == "ann"
    assert connect(url, "bob").list_experiments(namespace="bob").total_size == 0
