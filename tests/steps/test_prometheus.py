"""What a finished step tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.steps.command import command
from components.steps.prometheus import VARIABLE, tell
from tests.fakes.handler import QuietHandler, serving


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The address of a server that takes what is put, and what it was given."""
    taken: list[tuple[str, str]] = []

    class Handler(QuietHandler):
        def do_PUT(self) -> None:
            taken.append((self.path, self.body().decode()))
            self.reply(500 if "evaluate" in self.path else 200, b"")

    with serving(Handler) as url:
        yield url, taken


def test_a_gateway_gets_a_group_for_each_step(
    gateway: tuple[str, list[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, taken = gateway
    monkeypatch.setenv(VARIABLE, f"{url}/")
    metrics = {"train_samples_per_second": 1250.5, "validation_auc": float("nan"), "outcome": "patience", "amp": True}
    tell("train", 12.5, {"train": 1000}, metrics)
    ((path, body),) = taken
    assert path == "/metrics/job/kfrec/step/train"
    lines = body.splitlines()
    assert 'kfrec_step_duration_seconds{step="train"} 12.5' in lines
    assert 'kfrec_step_rows{step="train",rows="train"} 1000.0' in lines
    assert [line for line in lines if line.startswith("kfrec_step_metric{")] == [
        'kfrec_step_metric{step="train",metric="train_samples_per_second"} 1250.5'
    ]


def test_a_gateway_that_fails_is_a_line_and_no_failure(
    gateway: tuple[str, list[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, gateway[0])
    tell("evaluate", 1.0, {}, {})
    assert "metrics of evaluate: not sent to KFREC_METRICS (500 Server Error" in capsys.readouterr().err


def test_a_step_writes_a_file_for_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    arguments = ["--synthetic_users=50", "--synthetic_items=40", f"--raw={tmp_path / 'raw'}"]
    assert command("download", arguments) == 0
    assert 'kfrec_step_rows{step="download",rows="' in (tmp_path / "kfrec_download.prom").read_text()
    assert not list(tmp_path.glob("*.partial"))
