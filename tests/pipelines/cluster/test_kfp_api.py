"""The stand-in itself, through the official client: what the tests beside this one rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kfp_server_api
import pytest
from kfp import Client

from pipelines.cluster.connection import connect, server_version
from pipelines.cluster.removal import delete
from pipelines.cluster.versions import Version, ensure_version
from tests.fakes.kfp_api import KfpApi
from tests.pipelines.cluster.reconciling import IR


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


def schedule(client: Client, version: Version) -> Any:
    experiment = client.create_experiment("e").experiment_id
    ids = {"pipeline_id": version.pipeline_id, "version_id": version.version_id}
    return client.create_recurring_run(experiment, "nightly", cron_expression="0 0 2 * * *", **ids)


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


def test_a_recurring_run_shows_its_state_late_and_its_mode_never(api: KfpApi, client: Client, version: Version) -> None:
    api.status_lag = 1
    created = schedule(client, version)
    assert (created.status, created.mode) == ("STATUS_UNSPECIFIED", None)
    assert client.list_recurring_runs().recurring_runs[0].status == "ENABLED"
    client.disable_recurring_run(created.recurring_run_id)
    listed = [client.list_recurring_runs().recurring_runs[0].status for _ in range(2)]
    assert listed == ["ENABLED", "DISABLED"]


@pytest.mark.parametrize(
    ("server", "killed"), [("2.5.0", True), ("2.15.2", True), ("unknown", True), ("2.16.0", False)]
)
def test_a_recurring_run_takes_its_runs_with_it_unless_the_server_can_leave_them(
    api: KfpApi, client: Client, version: Version, server: str, killed: bool
) -> None:
    api.version = server
    asked, not_asked = (schedule(client, version).recurring_run_id for _ in range(2))
    runs = [api.fire(asked), api.fire(not_asked)]
    delete(client, asked, orphan=True)
    assert (runs[0] in api.killed) == killed
    client.delete_recurring_run(not_asked)
    assert runs[1] in api.killed


@pytest.mark.parametrize(
    ("tag", "version"), [("2.16.0", (2, 16)), ("v2.5.0-rc.2", (2, 5)), ("unknown", None), ("", None), ("dev", None)]
)
def test_the_server_says_its_version(api: KfpApi, client: Client, tag: str, version: tuple[int, int] | None) -> None:
    api.version = tag
    assert server_version(client) == version


def test_where_kfp_serves_several_users_everything_is_somebodys(api: KfpApi, url: str) -> None:
    api.multi_user = True
    with pytest.raises(kfp_server_api.ApiException) as error:
        connect(url).list_recurring_runs()
    assert error.value.status == 400
    assert connect(url, "ann").create_experiment("e").namespace == "ann"
    assert connect(url, "bob").list_experiments(namespace="bob").total_size == 0
