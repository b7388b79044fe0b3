"""The end of ``make setup``, which compiles the kernels before the first training."""

from __future__ import annotations

import sys

import pytest

from pipelines import kernels


def test_a_failure_is_told_and_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(step: str, _: list[str]) -> int:
        print(f"error: {step}: no space left", file=sys.stderr)
        return 2

    monkeypatch.setattr(kernels, "command", fails)
    assert kernels.main() == 0
    told = capsys.readouterr().err
    assert "error: download: no space left" in told and "the first training compiles them" in told
